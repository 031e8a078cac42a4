#include "execute/trials.hpp"

#include <algorithm>
#include <utility>

namespace unisono {

namespace {

/// More are long calls, which find little in the caches and are seldom disturbed: one of them tells enough.
constexpr std::uint64_t many_windows = 8;

/// Before the first call of a way is timed: the caches are as that way leaves them then.
constexpr std::uint64_t least_to_warm_up = 2;

/// The first rounds come one after the other: so many, where a round has several timed calls of each way.
constexpr unsigned most_rounds_at_first = 2;

/// Between later rounds, so many times as many calls as in one; ever more, up to a limit.
constexpr std::uint64_t shortest_pause = 8, longest_pause = 64;

/// What is better by less is not worth a change.
constexpr double as_good = 0.95;

}  // namespace

Trials::Trials(bool may_be_direct, std::uint64_t stage_turns, std::uint64_t windows)
    : ways_(may_be_direct ? 3 : 2),
      timed_(windows > many_windows ? 1 : most_timed),
      calls_to_go_round_(2 * ((stage_turns + windows - 1) / windows)) {}

Trials::Turn Trials::next(std::uint64_t era) {
    if (std::exchange(era_, era) != era) state_ = {};
    auto& [_, best, now, calls, calls_of_round, rounds, pause] = state_;
    if (pause > 0) {
        --pause;
        return {best, false};
    }
    const Turn turn{now, calls >= calls_to_warm_up()};
    ++calls_of_round;
    if (++calls < calls_to_warm_up() + timed_) return turn;
    calls = 0;
    now = static_cast<Way>((static_cast<std::size_t>(now) + 1) % ways_);
    if (now != Way::copied) return turn;
    const auto round = std::exchange(calls_of_round, 0);
    const auto at_first = timed_ == 1 ? 1 : most_rounds_at_first;
    if (++rounds < at_first) return turn;
    const auto doublings = std::min(rounds - at_first, 8U);
    pause = round * std::min(shortest_pause << doublings, longest_pause);
    return turn;
}

std::uint64_t Trials::calls_to_warm_up() const {
    if (timed_ < most_timed) return 1;
    return state_.now == Way::copied ? std::max(calls_to_go_round_, least_to_warm_up) : least_to_warm_up;
}

void Trials::learn(Way way, Clock::duration work) {
    tried(way).times[tried(way).count++ % timed_] = work;
    for (std::size_t each = 0; each < ways_; ++each)
        if (state_.tried[each].count < timed_) return;
    const std::chrono::duration<double, Clock::period> before = median(state_.best);
    for (std::size_t each = 0; each < ways_; ++each) {
        const auto other = static_cast<Way>(each);
        if (median(other) < as_good * before && median(other) < median(state_.best)) state_.best = other;
    }
}

Clock::duration Trials::median(Way way) const {
    const auto& [a, b, c] = tried(way).times;
    return timed_ == 1 ? a : std::max(std::min(a, b), std::min(std::max(a, b), c));
}

}  // namespace unisono
