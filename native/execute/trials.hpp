#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace unisono {

/// How others get at what is in a rank's private memory.
enum class Way : std::uint8_t {
    copied,    // to its stage, through the caches
    streamed,  // to its stage, past the caches
    direct,    // from there and to there, by the system, which looks up every page
};

/// Which way is the best depends on the processor, on the cores that the ranks have just now, and on how
/// large the pages are. So the calls of a plan try all of them now and then, all ranks in the same calls.
class Trials {
  public:
    /// A stage has so many places, which the windows of calls take in turn.
    Trials(bool may_be_direct, std::uint64_t stage_turns, std::uint64_t windows);

    /// What the next call of all ranks does. Ranks are in step because they make the same calls, unless one
    /// failed: all begin anew in the next era.
    struct Turn {
        Way way = Way::copied;
        bool is_timed = false;
    };
    Turn next(std::uint64_t era);

    /// What a timed call took.
    void learn(Way way, Clock::duration work);

  private:
    static constexpr std::size_t most_timed = 3;

    struct Tried {
        std::array<Clock::duration, most_timed> times{};  // of the last round
        std::size_t count = 0;
    };

    /// What was done and learnt so far.
    struct State {
        std::array<Tried, 3> tried{};
        Way best = Way::copied;
        Way now = Way::copied;    // on trial
        std::uint64_t calls = 0;  // of that
        std::uint64_t calls_of_round = 0;
        unsigned rounds = 0;
        std::uint64_t pause = 0;  // calls until the next round
    };

    std::uint64_t calls_to_warm_up() const;
    Clock::duration median(Way way) const;
    Tried& tried(Way way) { return state_.tried[static_cast<std::size_t>(way)]; }
    const Tried& tried(Way way) const { return state_.tried[static_cast<std::size_t>(way)]; }

    std::size_t ways_;
    std::size_t timed_;                // calls of a way in a round
    std::uint64_t calls_to_go_round_;  // both stages
    std::uint64_t era_ = 0;
    State state_;
};

}  // namespace unisono
