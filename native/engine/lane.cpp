#include "engine/lane.hpp"

#include <algorithm>

namespace unisono::engine {

namespace {

std::span<const Demand> demands(const Operation& operation) {
    return {operation.demands.get(), operation.demand_count};
}

}  // namespace

void Lane::park(Operation& operation) {
    parked_.push_back(&operation);
    std::ranges::push_heap(parked_, comes_later);
}

Operation& Lane::unpark() {
    std::ranges::pop_heap(parked_, comes_later);
    Operation& operation = *parked_.back();
    parked_.pop_back();
    return operation;
}

Lane* Lanes::obstacle(const Operation& operation) {
    for (const auto& [lane, amount] : demands(operation))
        if (!lane->is_next(operation)) return lane.get();
    for (const auto& [lane, amount] : demands(operation))
        if (!lane->has_room(amount)) return lane.get();
    return nullptr;
}

void Lanes::take(Operation& operation) {
    operation.has_lanes = true;
    for (const auto& [lane, amount] : demands(operation)) lane->used_ += amount;
}

bool Lanes::acquire(Operation& operation) {
    const std::lock_guard lock(mutex_);
    if (operation.state.load(std::memory_order_acquire) == State::cancelled) return true;
    if (Lane* const lane = obstacle(operation)) {
        lane->park(operation);
        return false;
    }
    take(operation);
    return true;
}

bool Lanes::withdraw(Operation& operation, std::vector<Operation*>& may_begin) {
    const std::lock_guard lock(mutex_);
    for (const auto& [lane, amount] : demands(operation)) {
        if (std::erase(lane->parked_, &operation) == 0) continue;
        std::ranges::make_heap(lane->parked_, comes_later);
        serve(*lane, may_begin);
        return true;
    }
    return false;
}

void Lanes::release(Operation& operation, std::vector<Operation*>& may_begin) {
    const std::lock_guard lock(mutex_);
    for (const auto& [lane, amount] : demands(operation)) lane->used_ -= amount;
    for (const auto& [lane, amount] : demands(operation)) serve(*lane, may_begin);
}

/// Whoever is first in a lane lacks room in that one: who lacks it elsewhere is parked there instead.
void Lanes::serve(Lane& lane, std::vector<Operation*>& may_begin) {
    while (!lane.parked_.empty()) {
        Operation& next = *lane.parked_.front();
        Lane* const where = obstacle(next);
        if (where == &lane) break;
        lane.unpark();
        if (where != nullptr) {
            where->park(next);
            continue;
        }
        take(next);
        may_begin.push_back(&next);
    }
}

std::vector<Operation*> Lanes::parked(const Lane& lane) {
    std::vector<Operation*> found;
    {
        const std::lock_guard lock(mutex_);
        found = lane.parked_;
    }
    std::ranges::sort(found, [](auto* one, auto* other) { return comes_later(other, one); });
    return found;
}

}  // namespace unisono::engine
