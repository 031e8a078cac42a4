#pragma once

#include <atomic>
#include <cstdint>

#include "base/fd.hpp"

namespace unisono {

/// Rings for who sleeps in poll(2): a byte over a socket, sent only if the word in shared memory says that
/// the other side sleeps.
///
/// Nobody's news is missed, for the reason that Bell has: news and word are written and read sequentially
/// consistently, so either the ringer sees the word, or the sleeper's look after it has set the word sees the
/// news.
class SocketBell {
  public:
    /// Word and socket outlive it.
    SocketBell(std::atomic<std::uint32_t>& asleep, const Fd& socket) : asleep_(asleep), socket_(socket) {}

    void ring() {
        if (asleep_.load(std::memory_order_seq_cst) != 0) wake();
    }

  private:
    void wake();

    std::atomic<std::uint32_t>& asleep_;
    const Fd& socket_;
};

}  // namespace unisono
