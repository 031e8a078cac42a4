#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace unisono::engine {

/// Happens once; who waits for it may give up.
class Event {
  public:
    void happen() {
        const std::lock_guard lock(mutex_);
        happened_ = true;
        changed_.notify_all();
    }
    bool wait_until(std::chrono::steady_clock::time_point time) {
        std::unique_lock lock(mutex_);
        return changed_.wait_until(lock, time, [this] { return happened_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool happened_ = false;
};

}  // namespace unisono::engine
