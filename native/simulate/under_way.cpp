#include "simulate/under_way.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::simulate {

namespace {

constexpr double rounding = 1e-12;

}  // namespace

std::uint32_t UnderWay::create() {
    if (free_.empty()) {
        flows_.emplace_back();
        return static_cast<std::uint32_t>(flows_.size() - 1);
    }
    const std::uint32_t flow = free_.back();
    free_.pop_back();
    return flow;
}

void UnderWay::set(std::uint32_t f, std::int64_t order, double weight, double now) {
    Flow& flow = flows_[f];
    flow.order = order;
    flow.weight = weight;
    flow.left = 1;
    flow.rate = 0;
    flow.since = now;
}

void UnderWay::enter(std::uint32_t f, std::uint32_t resource, double seconds) {
    auto& there = on_resource_[resource];
    flows_[f].uses.push_back({resource, seconds});
    flows_[f].places.push_back(static_cast<std::uint32_t>(there.size()));
    there.push_back(f);
    changed_.push_back(resource);
}

void UnderWay::remove(std::uint32_t f) {
    Flow& flow = flows_[f];
    for (std::size_t i = 0; i < flow.uses.size(); ++i) {
        const std::uint32_t resource = flow.uses[i].resource;
        auto& there = on_resource_[resource];
        const std::uint32_t moved = there.back();
        there[flow.places[i]] = moved;
        there.pop_back();
        changed_.push_back(resource);
        if (moved == f) continue;
        Flow& other = flows_[moved];
        const auto at =
            std::find_if(other.uses.begin(), other.uses.end(),
                         [resource](const Sharing::Use& use) { return use.resource == resource; });
        other.places[static_cast<std::size_t>(at - other.uses.begin())] = flow.places[i];
    }
    flow.uses.clear();
    flow.places.clear();
    ++flow.version;
    free_.push_back(f);
}

double UnderWay::alone(std::uint32_t f) const {
    double longest = 0;
    for (const Sharing::Use& use : flows_[f].uses) longest = std::max(longest, use.seconds);
    return longest;
}

std::span<const UnderWay::Ending> UnderWay::share(double now) {
    endings_.clear();
    ++visit_;
    for (const std::uint32_t resource : changed_)
        if (visited_[resource] != visit_) share_around(resource, now);
    changed_.clear();
    return endings_;
}

/// The flows that are joined to a resource, by resources in common, have their rates from each other and
/// nobody else.
void UnderWay::share_around(std::uint32_t resource, double now) {
    joined_.clear();
    frontier_.assign(1, resource);
    visited_[resource] = visit_;
    while (!frontier_.empty()) {
        const std::uint32_t here = frontier_.back();
        frontier_.pop_back();
        for (const std::uint32_t f : on_resource_[here]) {
            if (flows_[f].visited == visit_) continue;
            flows_[f].visited = visit_;
            joined_.push_back(f);
            for (const Sharing::Use& use : flows_[f].uses)
                if (visited_[use.resource] != visit_) {
                    visited_[use.resource] = visit_;
                    frontier_.push_back(use.resource);
                }
        }
    }
    if (joined_.size() == 1) return set_rate(joined_[0], 1 / alone(joined_[0]), now);
    sharing_.clear();
    for (const std::uint32_t f : joined_) {
        const Flow& flow = flows_[f];
        sharing_.flows.push_back({flow.order, flow.weight, static_cast<std::uint32_t>(sharing_.uses.size()),
                                  static_cast<std::uint32_t>(flow.uses.size()), 0});
        sharing_.uses.insert(sharing_.uses.end(), flow.uses.begin(), flow.uses.end());
    }
    sharing_.solve();
    for (std::size_t i = 0; i < joined_.size(); ++i) set_rate(joined_[i], sharing_.flows[i].rate, now);
}

void UnderWay::set_rate(std::uint32_t f, double rate, double now) {
    Flow& flow = flows_[f];
    if (flow.rate > 0 && std::abs(rate - flow.rate) <= rounding * flow.rate) return;
    flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
    flow.since = now;
    flow.rate = rate;
    ++flow.version;
    if (rate > 0) endings_.push_back({now + flow.left / rate, f, flow.version});
}

}  // namespace unisono::simulate
