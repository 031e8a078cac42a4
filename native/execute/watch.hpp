#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "execute/host.hpp"

namespace unisono {

using Clock = std::chrono::steady_clock;

/// What a rank that waits for others looks after now and then: signals, the deadline, and whether they live.
class Watch {
  public:
    Watch(int rank, const Host& host, Clock::time_point deadline, const std::function<void()>& interrupt);

    /// Every 20 ms.
    bool is_time() const { return Clock::now() >= next_; }

    /// What a rank waits for.
    struct Wait {
        std::function<bool(int)> is_for;           // this rank?
        std::function<std::vector<int>()> ranks;   // all of them
        std::uint64_t call;
        std::function<bool()> is_over;             // by now?
    };

    /// Throws if there is a reason to wait no longer. What a peer did before it died still counts.
    void look(const Wait& wait);

    void progress() { looks_ = 0; }

  private:
    bool alarm_rings() const;
    void look_for_failures(const Wait& wait);
    void look_for_deaths(const Wait& wait);
    [[noreturn]] void throw_late(const Wait& wait) const;

    int rank_;
    const Host& host_;
    Clock::time_point deadline_;
    const std::function<void()>& interrupt_;
    Clock::time_point next_;
    int looks_ = 0;  // since progress was made
};

}  // namespace unisono
