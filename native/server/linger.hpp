#pragma once

#include <sched.h>

#include <chrono>

namespace unisono::server {

/// Before a thread sleeps: to be woken takes about 25 us, as long as a server needs for most requests; over
/// TCP, a worker that sleeps until it has its answer asks again after 60. A server that nobody asks sleeps
/// after this.
inline constexpr std::chrono::microseconds time_of_servers{100};
/// Of a worker that waits for an answer.
inline constexpr std::chrono::microseconds time_of_workers{200};

/// Looks again and again, so long at most, until there is something. Others who need the core get it. If the
/// one that is waited for does, to sleep is better: a thread that yields stays where it is and has its turns,
/// one that is woken goes to a core that is free.
template <class Look, class Hopeless>
bool linger(std::chrono::microseconds most, Look look, Hopeless hopeless) {
    constexpr int looks_without_a_yield = 64;
    const auto until = std::chrono::steady_clock::now() + most;
    for (int looks = 0;; ++looks) {
        if (look()) return true;
        if (looks < looks_without_a_yield) continue;
        if (hopeless() || std::chrono::steady_clock::now() >= until) return false;
        ::sched_yield();
    }
}

}  // namespace unisono::server
