#pragma once

#include <memory>
#include <vector>

#include "engine/operation.hpp"
#include "engine/stack.hpp"

namespace unisono::engine {

/// The places of operations, in slabs that are kept. They are taken by one thread at a time, which holds the
/// engine's lock, and given back by any.
class Pool {
  public:
    Operation& take() {
        if (free_ == nullptr) free_ = returned_.take_all();
        if (free_ == nullptr) grow();
        Operation& operation = *free_;
        free_ = operation.next;
        return operation;
    }

    void give_back(Operation& operation) {
        operation.state.store(State::free, std::memory_order_release);
        returned_.put(operation);
    }

    /// All places, while nobody takes one.
    template <class Visit>
    void for_each(Visit visit) {
        for (const auto& slab : slabs_)
            for (std::size_t i = 0; i < per_slab; ++i) visit(slab[i]);
    }

  private:
    static constexpr std::size_t per_slab = 256;

    void grow() {
        auto slab = std::make_unique<Operation[]>(per_slab);
        for (std::size_t i = per_slab; i-- > 0; free_ = &slab[i]) slab[i].next = free_;
        slabs_.push_back(std::move(slab));
    }

    Operation* free_ = nullptr;
    Stack<Operation> returned_;
    std::vector<std::unique_ptr<Operation[]>> slabs_;
};

}  // namespace unisono::engine
