#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "execute/caller.hpp"
#include "execute/host.hpp"

namespace unisono {

/// When a call is made, among all that a rank makes: calls of two ranks come between those of all ranks.
struct Turn {
    static constexpr std::uint64_t never = ~std::uint64_t{0};

    static constexpr std::uint64_t of_all(std::uint64_t sequence) { return 2 * sequence + 1; }
    static constexpr std::uint64_t of_two(std::uint64_t next_of_all) { return 2 * next_of_all; }
};

/// What a rank that waits for others looks after now and then: signals, the deadline, and whether they live.
class Watch {
  public:
    /// The call that waits, and what ends it.
    struct Call {
        std::uint64_t sequence;  // of the calls of all ranks
        std::uint64_t turn;
        Clock::time_point began;
        Clock::time_point deadline;
        const std::atomic<std::uint64_t>& failed;  // the turn of a call that all ranks have to leave
    };

    Watch(int rank, const Host& host, const Call& call, Caller& caller);

    std::uint64_t sequence() const { return call_.sequence; }

    /// Every 20 ms.
    bool is_time() const { return quick_now() >= next_; }

    /// What a rank waits for.
    struct Wait {
        std::function<bool(int)> is_for;          // this rank?
        std::function<std::vector<int>()> ranks;  // all of them
        std::function<bool()> is_over;            // by now?
    };

    /// Throws if there is a reason to wait no longer. What a peer did before it died still counts.
    void look(const Wait& wait);

    /// Before a wait that may be long.
    void begin() { caller_.takes_a_while(); }

    void progress() {
        looks_ = 0;
        still_since_ = {};
    }

  private:
    void look_for_a_verdict(Clock::time_point now);
    void look_for_failures(const Wait& wait);
    void look_for_deaths(const Wait& wait);
    [[noreturn]] void throw_late(const Wait& wait) const;

    int rank_;
    const Host& host_;
    Call call_;
    Caller& caller_;
    Clock::time_point next_;
    int looks_ = 0;  // since progress was made
    Clock::time_point still_since_{};
};

}  // namespace unisono
