#include "transport/shm/bell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "base/error.hpp"

namespace unisono {

namespace {

/// Without FUTEX_PRIVATE_FLAG: the sleeper is in another process than the ringer.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
    static_assert(sizeof word == sizeof value);
    return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void Bell::enter() {
    // Ordered before this sleeper's next look at the news: see the class.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
}

void Bell::leave() {
    // Relaxed: a ringer that still sees the sleeper makes one system call too many.
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

std::uint32_t Bell::ticket() const {
    // Acquire, pairs with wake: a ticket that counts a ring comes with that ringer's news.
    return rung_.load(std::memory_order_acquire);
}

void Bell::sleep(std::uint32_t ticket, std::chrono::microseconds timeout) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    const std::chrono::nanoseconds rest = timeout - seconds;
    const timespec duration{static_cast<std::time_t>(seconds.count()), static_cast<long>(rest.count())};
    // The kernel compares the word with the ticket under the lock that a waker takes.
    if (futex(rung_, FUTEX_WAIT, ticket, &duration) == 0) return;
    if (errno != EAGAIN && errno != EINTR && errno != ETIMEDOUT) throw_errno("sleeping on shared memory");
}

void Bell::wake() {
    // Release, pairs with ticket.
    rung_.fetch_add(1, std::memory_order_release);
    futex(rung_, FUTEX_WAKE, INT_MAX, nullptr);
}

}  // namespace unisono
