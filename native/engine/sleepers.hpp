#pragma once

#include <atomic>
#include <cstdint>

namespace unisono::engine {

/// Threads that found nothing to do. One of them is woken at a time; when it has found something, it wakes
/// the next one if there is more. All is sequentially consistent: who puts work down and then sees no sleeper
/// is seen by who says that it will sleep and then looks for work.
class Sleepers {
  public:
    /// Look for work again between this and `sleep`.
    std::uint32_t prepare() {
        // First: or else a call for who is counted might be taken for an older one, and slept through, and
        // nobody would call again, waiting for whoever was called.
        const auto seen = calls_.load();
        ++count_;
        return seen;
    }
    void sleep(std::uint32_t seen) {
        calls_.wait(seen);
        stay_up();
    }
    /// Instead of sleeping.
    void stay_up() {
        --count_;
        waking_ = false;
    }

    void wake_one() {
        if (waking_ || count_ == 0 || waking_.exchange(true)) return;
        // Whoever was counted comes to `stay_up` after this, or has come there: then none need be woken.
        if (count_ == 0) {
            waking_ = false;
            return;
        }
        ++calls_;
        calls_.notify_one();
    }
    void wake_all() {
        ++calls_;
        calls_.notify_all();
    }

  private:
    std::atomic<std::uint32_t> calls_ = 0;
    std::atomic<int> count_ = 0;
    std::atomic<bool> waking_ = false;
};

}  // namespace unisono::engine
