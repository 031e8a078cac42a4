#pragma once

#include <sched.h>

#include <atomic>

namespace unisono::engine {

/// A lock of one byte, for a few instructions at a time. Nothing is called while it is held that could wait.
class Spin {
  public:
    void lock() {
        while (taken_.exchange(true, std::memory_order_acquire))
            while (taken_.load(std::memory_order_relaxed)) ::sched_yield();
    }
    void unlock() { taken_.store(false, std::memory_order_release); }

  private:
    std::atomic<bool> taken_ = false;
};

}  // namespace unisono::engine
