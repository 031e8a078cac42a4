#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/operation.hpp"

namespace unisono::engine {

/// Operations that one thread puts and takes at the bottom while others steal from the top. Chase and Lev,
/// "Dynamic circular work-stealing deque", SPAA 2005. The two ends are sequentially consistent, as in the
/// paper: the fences that would be cheaper are not seen by ThreadSanitizer.
class Deque {
  public:
    Deque() { ring_.store(add_ring(32), std::memory_order_relaxed); }

    bool empty() const { return bottom_.load() <= top_.load(); }

    void put(Operation& operation) {
        const auto bottom = bottom_.load(std::memory_order_relaxed), top = top_.load();
        Ring* ring = ring_.load(std::memory_order_relaxed);
        if (bottom - top >= ring->size()) ring = grow(*ring, top, bottom);
        ring->at(bottom).store(&operation, std::memory_order_relaxed);
        bottom_.store(bottom + 1);
    }

    Operation* take() {
        const auto bottom = bottom_.load(std::memory_order_relaxed) - 1;
        Ring* const ring = ring_.load(std::memory_order_relaxed);
        bottom_.store(bottom);
        auto top = top_.load();
        if (top > bottom) {
            bottom_.store(bottom + 1);
            return nullptr;
        }
        Operation* operation = ring->at(bottom).load(std::memory_order_relaxed);
        if (top == bottom) {  // the last one, which a thief may have taken
            if (!top_.compare_exchange_strong(top, top + 1)) operation = nullptr;
            bottom_.store(bottom + 1);
        }
        return operation;
    }

    Operation* steal() {
        auto top = top_.load();
        if (top >= bottom_.load()) return nullptr;
        Operation* const operation =
            ring_.load(std::memory_order_acquire)->at(top).load(std::memory_order_relaxed);
        return top_.compare_exchange_strong(top, top + 1) ? operation : nullptr;
    }

  private:
    class Ring {
      public:
        explicit Ring(std::int64_t size) : places_(static_cast<std::size_t>(size)) {}
        std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }
        std::atomic<Operation*>& at(std::int64_t index) {
            return places_[static_cast<std::size_t>(index) & (places_.size() - 1)];
        }

      private:
        std::vector<std::atomic<Operation*>> places_;
    };

    Ring* add_ring(std::int64_t size) {
        rings_.push_back(std::make_unique<Ring>(size));
        return rings_.back().get();
    }

    /// The old one is kept: a thief may look at it.
    Ring* grow(Ring& old, std::int64_t top, std::int64_t bottom) {
        Ring* const ring = add_ring(2 * old.size());
        for (auto i = top; i < bottom; ++i)
            ring->at(i).store(old.at(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
        ring_.store(ring, std::memory_order_release);
        return ring;
    }

    std::atomic<std::int64_t> top_ = 0;
    std::atomic<std::int64_t> bottom_ = 0;
    std::atomic<Ring*> ring_ = nullptr;
    std::vector<std::unique_ptr<Ring>> rings_;
};

}  // namespace unisono::engine
