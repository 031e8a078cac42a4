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

/// Which way is the best depends on the processor, on the cores that the ranks have just now, and on how large
/// the pages are. So the calls of a plan try all of them now and then, all ranks in the same calls.
class Trials {
  public:
    /// A stage has so many places, which calls take in turn.
    Trials(bool may_be_direct, std::uint64_t stage_turns)
        : ways_(may_be_direct ? 3 : 2), stage_turns_(stage_turns) {}

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
    static constexpr std::size_t timed = 3;  // calls of a way in a round

    /// What the last ones took.
    struct Times {
        std::array<Clock::duration, timed> latest{};
        std::size_t count = 0;

        void add(Clock::duration time) { latest[count++ % timed] = time; }
        bool are_known() const { return count >= timed; }
        Clock::duration median() const;
    };

    /// Before the first one of a round is timed: the caches are as the way leaves them then.
    std::uint64_t calls_to_warm_up(Way way) const;

    std::size_t ways_;
    std::uint64_t stage_turns_;
    std::uint64_t era_ = 0;
    std::array<Times, 3> times_{};
    Way best_ = Way::copied;
    Way tried_ = Way::copied;
    std::uint64_t calls_ = 0;  // of that way, in this round
    std::uint64_t calls_of_round_ = 0;
    unsigned rounds_ = 0;
    std::uint64_t pause_ = 0;  // calls until the next round
};

}  // namespace unisono
