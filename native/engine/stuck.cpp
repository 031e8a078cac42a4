#include "engine/stuck.hpp"

#include <algorithm>

#include "engine/lane.hpp"

namespace unisono::engine {

namespace {

std::span<const Demand> demands(const Operation& operation) {
    return {operation.demands.get(), operation.demand_count};
}

bool is_cancelled(const Operation& operation) {
    return operation.state.load(std::memory_order_acquire) == State::cancelled;
}

}  // namespace

Stuck::Stuck(const Moment& moment, const Waits& waits, const Awaited& awaited) : moment_(moment) {
    suspects_.reserve(moment.operations.size());
    for (const auto& [operation, engine] : moment.operations) suspect(*operation, engine, waits);
    std::ranges::sort(suspects_, {}, &Suspect::serial);
    for (const auto& [operation, waiting] : waits) awaited_.emplace(waiting.awaited.operation, nullptr);
    for (const auto& each : suspects_)
        if (const auto found = awaited_.find(each.operation); found != awaited_.end()) found->second = &each;
    do look();
    while (std::exchange(has_cleared_, false) && contains(awaited));
}

bool Stuck::contains(const Awaited& awaited) const {
    if (awaited.operation == nullptr)
        return std::ranges::any_of(
            suspects_, [&](const auto& each) { return each.is_stuck && each.engine == awaited.engine; });
    const auto found = awaited_.find(awaited.operation);
    return found != awaited_.end() && found->second != nullptr && found->second->is_stuck;
}

void Stuck::suspect(Operation& operation, const Engine* engine, const Waits& waits) {
    const auto found = waits.find(&operation);
    const Waiting* const waiting = found == waits.end() ? nullptr : &found->second;
    const bool runs = operation.state.load(std::memory_order_acquire) == State::running;
    const bool is_stuck = !runs || waiting != nullptr;
    const bool has_lanes = operation.has_lanes.load(std::memory_order_relaxed);
    suspects_.push_back({operation.serial, &operation, engine, waiting, is_stuck, has_lanes});
    if (!is_stuck || !has_lanes) return;
    for (const auto& [lane, amount] : demands(operation)) held_[lane.get()] += amount;
}

void Stuck::clear(Suspect& suspect) {
    suspect.is_stuck = false;
    has_cleared_ = true;
    if (!suspect.has_lanes) return;
    for (const auto& [lane, amount] : demands(*suspect.operation)) held_[lane.get()] -= amount;
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
    std::vector<std::pair<Before*, Mode>> used;
    for (auto& each : suspects_) {
        bool is_behind = false;
        used.clear();
        for (const auto& access : each.operation->accesses()) {
            used.emplace_back(&before[access.variable], access.mode);
            is_behind |= used.back().first->keeps(access.mode);
        }
        if (each.is_stuck && !is_kept(each, is_behind)) clear(each);
        if (!each.is_stuck) continue;
        for (const auto& [variable, mode] : used) variable->note(mode);
    }
}

bool Stuck::is_kept(const Suspect& suspect, bool by_a_variable) const {
    const Operation& operation = *suspect.operation;
    if (operation.is_over()) return false;
    if (operation.state.load(std::memory_order_acquire) == State::running)
        return suspect.waiting != nullptr && contains(suspect.waiting->awaited);
    return by_a_variable || lacks_a_lane(operation);
}

/// Lanes serve who comes first: behind one for which there is never room, nobody is served.
void Stuck::look_at_lanes() {
    barred_.clear();
    for (const auto& [lane, parked] : moment_.parked) {
        const auto never_fits = [&, here = lane](const Operation* operation) {
            return !is_cancelled(*operation) &&
                   std::ranges::any_of(demands(*operation), [&](const Demand& each) {
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
    if (operation.has_lanes.load(std::memory_order_relaxed) || is_cancelled(operation)) return false;
    return std::ranges::any_of(demands(operation), [&](const auto& each) {
        const auto barred = barred_.find(each.lane.get());
        return is_full(each) || (barred != barred_.end() && comes_later(&operation, barred->second));
    });
}

}  // namespace unisono::engine
