#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <vector>

#include "engine/operation.hpp"
#include "engine/spin.hpp"

namespace unisono::engine {

/// Operations that may run, for whichever thread comes: by priority, and in the order of their coming.
class Ready {
  public:
    static constexpr std::int64_t nothing = std::numeric_limits<std::int64_t>::min();

    /// The highest priority, or nothing; may be old a moment later.
    std::int64_t best() const { return best_.load(); }
    bool empty() const { return best() == nothing; }

    void put(Operation& operation) {
        const std::lock_guard lock(lock_);
        if (operation.priority == 0) {
            operation.next = nullptr;
            (first_ == nullptr ? first_ : last_->next) = &operation;
            last_ = &operation;
        } else {
            others_.push_back(&operation);
            std::ranges::push_heap(others_, comes_later);
        }
        look();
    }

    /// The next one, if its priority is at least that.
    Operation* take(std::int64_t least = nothing + 1) {
        if (best() < least) return nullptr;
        const std::lock_guard lock(lock_);
        if (best() < least) return nullptr;
        Operation* operation = first_;
        if (operation == nullptr || (!others_.empty() && others_.front()->priority > 0)) {
            std::ranges::pop_heap(others_, comes_later);
            operation = others_.back();
            others_.pop_back();
        } else {
            first_ = operation->next;
        }
        look();
        return operation;
    }

  private:
    void look() {
        std::int64_t best = first_ == nullptr ? nothing : 0;
        if (!others_.empty()) best = std::max<std::int64_t>(best, others_.front()->priority);
        if (best != best_.load(std::memory_order_relaxed)) best_.store(best);
    }

    Spin lock_;
    Operation* first_ = nullptr;  // those of priority 0, mostly all
    Operation* last_ = nullptr;
    std::vector<Operation*> others_;  // a heap
    std::atomic<std::int64_t> best_ = nothing;
};

}  // namespace unisono::engine
