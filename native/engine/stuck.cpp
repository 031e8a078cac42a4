#include "engine/stuck.hpp"

#include <algorithm>

#include "engine/lane.hpp"

namespace unisono::engine {

namespace {

std::span<const Demand> demands(const Operation& operation) {
    return {operation.demands.get(), operation.demand_count};
}

}  // namespace

Stuck::Stuck(Moment moment, const Waits& waits, Operation& self) : moment_(std::move(moment)), waits_(waits) {
    std::ranges::sort(moment_.operations, {}, [](const auto& each) { return each.first->serial; });
    const auto found =
        std::ranges::find(moment_.operations, &self, [](const auto& each) { return each.first; });
    add(self, found == moment_.operations.end() ? nullptr : found->second);
    while (std::exchange(found_, false)) look();
}

/// Would one that comes now have to wait?
bool Stuck::Before::keeps(Mode mode) {
    if (mode == Mode::await) return reads || mutates || accumulates || accumulates_now;
    if (mode != Mode::accumulate || last != Mode::accumulate)
        accumulates |= std::exchange(accumulates_now, false);
    last = mode;
    return mutates || accumulates || (mode != Mode::read && reads);
}

void Stuck::Before::note(Mode mode) {
    if (mode == Mode::await) return;
    (mode == Mode::read ? reads : mode == Mode::mutate ? mutates : accumulates_now) = true;
}

void Stuck::look() {
    look_at_lanes();
    std::unordered_map<const Variable*, Before> before;
    for (const auto& [operation, engine] : moment_.operations) {
        bool never = false;
        for (const auto& access : operation->accesses()) never |= before[access.variable].keeps(access.mode);
        if (!stuck_.contains(operation) && (never || lacks_a_lane(*operation) || waits_for_one(*operation)))
            add(*operation, engine);
        if (stuck_.contains(operation))
            for (const auto& access : operation->accesses()) before[access.variable].note(access.mode);
    }
}

/// Lanes serve who comes first: behind one for which there is never room, nobody is served.
void Stuck::look_at_lanes() {
    for (const auto& [lane, parked] : moment_.parked) {
        const auto never_fits = [&, here = lane](const Operation* operation) {
            return std::ranges::any_of(demands(*operation), [&](const Demand& each) {
                return each.lane.get() == here && is_full(each);
            });
        };
        if (const auto found = std::ranges::find_if(parked, never_fits); found != parked.end())
            barred_[lane] = *found;
    }
}

bool Stuck::is_full(const Demand& demand) const {
    const auto found = held_.find(demand.lane.get());
    return found != held_.end() && found->second + demand.amount > demand.lane->capacity();
}

bool Stuck::lacks_a_lane(const Operation& operation) const {
    if (operation.has_lanes.load(std::memory_order_relaxed)) return false;
    return std::ranges::any_of(demands(operation), [&](const auto& each) {
        const auto barred = barred_.find(each.lane.get());
        return is_full(each) || (barred != barred_.end() && comes_later(&operation, barred->second));
    });
}

bool Stuck::waits_for_one(Operation& operation) const {
    const auto found = waits_.find(&operation);
    return found != waits_.end() && contains(found->second.awaited);
}

void Stuck::add(Operation& operation, const Engine* engine) {
    stuck_.insert(&operation);
    engines_.insert(engine);
    found_ = true;
    if (!operation.has_lanes.load(std::memory_order_relaxed)) return;
    for (const auto& [lane, amount] : demands(operation)) held_[lane.get()] += amount;
}

}  // namespace unisono::engine
