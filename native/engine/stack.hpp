#pragma once

#include <atomic>

namespace unisono::engine {

/// Things that any thread puts down and one takes up again, all at once: so no address can come back in
/// between, which is what makes taking single ones hard. T has a `next` of its own.
template <class T>
class Stack {
  public:
    void put(T& thing) {
        thing.next = top_.load(std::memory_order_relaxed);
        while (!top_.compare_exchange_weak(thing.next, &thing, std::memory_order_release,
                                           std::memory_order_relaxed)) {
        }
    }
    bool empty() const { return top_.load(std::memory_order_relaxed) == nullptr; }
    T* take_all() { return empty() ? nullptr : top_.exchange(nullptr, std::memory_order_acquire); }

  private:
    std::atomic<T*> top_ = nullptr;
};

}  // namespace unisono::engine
