#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace unisono {

/// A doorbell in shared memory. Who waits does, in this order: enter, ticket, look at everything that it
/// waits for, sleep; look again after each sleep; leave. Who rings makes its news visible, then rings.
///
/// Nobody's news is missed: the news and `sleepers_` are written and read sequentially consistently, so
/// either the ringer sees the sleeper, or the sleeper's look after `enter` sees the news. That spares the
/// ringer a write to this line, and the system call, while nobody sleeps. The memory is shared with peers
/// that may be broken: a sleep has to have a timeout.
class Bell {
  public:
    void enter();
    void leave();

    std::uint32_t ticket() const;

    /// Returns when the bell has rung since the ticket was drawn, after the timeout, or for no reason.
    void sleep(std::uint32_t ticket, std::chrono::microseconds timeout);

    void ring() {
        // Ordered after the store of the news, before the sleeper's load of it: see above.
        if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
    }

  private:
    void wake();

    std::atomic<std::uint32_t> rung_{0};
    std::atomic<std::uint32_t> sleepers_{0};
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "processes share it");

}  // namespace unisono
