#include "execute/trials.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace unisono {

namespace {

constexpr unsigned rounds_at_first = 2;

/// Between later rounds, so many times as many calls as in one; ever more, up to a limit.
constexpr std::uint64_t shortest_pause = 8, longest_pause = 64;

/// What is better by less is not worth a change.
constexpr double as_good = 0.95;

}  // namespace

Trials::Turn Trials::next(std::uint64_t era) {
    if (era != era_) {
        *this = Trials(ways_ == 3, stage_turns_);
        era_ = era;
    }
    if (pause_ > 0) {
        --pause_;
        return {best_, false};
    }
    const Turn turn{tried_, calls_ >= calls_to_warm_up(tried_)};
    ++calls_of_round_;
    if (++calls_ < calls_to_warm_up(tried_) + timed) return turn;
    calls_ = 0;
    tried_ = static_cast<Way>((static_cast<std::size_t>(tried_) + 1) % ways_);
    if (tried_ != Way::copied) return turn;
    const auto calls = std::exchange(calls_of_round_, 0);
    if (++rounds_ >= rounds_at_first)
        pause_ = calls * std::min(shortest_pause << std::min(rounds_ - rounds_at_first, 8U), longest_pause);
    return turn;
}

/// Each of both stages once, where the caches matter.
std::uint64_t Trials::calls_to_warm_up(Way way) const { return way == Way::copied ? 2 * stage_turns_ : 2; }

void Trials::learn(Way way, Clock::duration work) {
    times_[static_cast<std::size_t>(way)].add(work);
    if (!std::ranges::all_of(std::span(times_).first(ways_), &Times::are_known)) return;
    const auto median = [&](Way each) { return times_[static_cast<std::size_t>(each)].median(); };
    const std::chrono::duration<double, Clock::period> now = median(best_);
    for (std::size_t each = 0; each < ways_; ++each)
        if (const auto other = static_cast<Way>(each);
            median(other) < as_good * now && median(other) < median(best_))
            best_ = other;
}

Clock::duration Trials::Times::median() const {
    auto sorted = latest;
    std::ranges::sort(sorted);
    return sorted[timed / 2];
}

}  // namespace unisono
