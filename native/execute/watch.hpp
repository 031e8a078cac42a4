#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace unisono {

using Clock = std::chrono::steady_clock;

/// A process of this host, and the rank that it is.
struct Life {
    int rank;
    Fd process;
};

/// What a rank that waits for others looks after now and then: signals, the deadline, and whether they live.
class Watch {
  public:
    Watch(int rank, const std::vector<Life>& lives, Clock::time_point deadline,
          const std::function<void()>& interrupt);

    /// After the core was given away. `awaited` says who is waited for, in which call. `again` looks whether
    /// the wait is over: what a peer did before it died still counts.
    template <class Awaited, class Again>
    void look(Awaited awaited, Again again) {
        const auto now = Clock::now();
        if (now < next_) return;
        next_ = now + interval;
        interrupt_();
        if (now >= deadline_) throw_deadline(awaited());
        if (const int dead = dead_rank(); dead >= 0 && ++looks_since_a_death_ > 1 && !again())
            throw_lost(dead);
    }

    void progress() { looks_since_a_death_ = 0; }

  private:
    static constexpr auto interval = std::chrono::milliseconds(20);

    int dead_rank() const;
    [[noreturn]] void throw_deadline(const std::string& awaited) const;
    [[noreturn]] void throw_lost(int rank) const;

    int rank_;
    const std::vector<Life>& lives_;
    Clock::time_point deadline_;
    const std::function<void()>& interrupt_;
    Clock::time_point next_;
    int looks_since_a_death_ = 0;
};

}  // namespace unisono
