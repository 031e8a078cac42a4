#include "simulate/sharing.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace unisono::simulate {

namespace {

constexpr double rounding = 1e-12;
constexpr double unset = -1;

}  // namespace

void Sharing::solve() {
    order_.resize(flows.size());
    std::iota(order_.begin(), order_.end(), 0U);
    const auto older = [this](std::uint32_t a, std::uint32_t b) { return flows[a].rank < flows[b].rank; };
    if (!std::is_sorted(order_.begin(), order_.end(), older))
        std::stable_sort(order_.begin(), order_.end(), older);
    for (const Use& use : uses) left_[use.resource] = 1;
    for (std::size_t begin = 0; begin < order_.size();) {
        std::size_t end = begin;
        while (end < order_.size() && flows[order_[end]].rank == flows[order_[begin]].rank) ++end;
        fill(std::span(order_).subspan(begin, end - begin));
        begin = end;
    }
}

double Sharing::level(std::uint32_t resource) const {
    const double left = left_[resource] > rounding ? left_[resource] : 0;
    return demand_[resource] > 0 ? left / demand_[resource] : std::numeric_limits<double>::infinity();
}

/// Collects the resources of a group and the flows of each.
void Sharing::enter(std::span<const std::uint32_t> group) {
    resources_.clear();
    for (const std::uint32_t f : group)
        for (const Use& use : uses_of(flows[f])) demand_[use.resource] = pending_[use.resource] = 0;
    std::size_t incidences = 0;
    for (const std::uint32_t f : group) {
        flows[f].rate = unset;
        for (const Use& use : uses_of(flows[f])) {
            if (pending_[use.resource]++ == 0) resources_.push_back(use.resource);
            demand_[use.resource] += use.seconds * flows[f].weight;
            ++incidences;
        }
    }
    if (place_of_.size() < pending_.size()) place_of_.resize(pending_.size());
    begins_.assign(resources_.size() + 1, 0);
    for (std::size_t i = 0; i < resources_.size(); ++i) {
        place_of_[resources_[i]] = static_cast<std::uint32_t>(i);
        begins_[i + 1] = begins_[i] + pending_[resources_[i]];
    }
    members_.resize(incidences);
    next_.assign(begins_.begin(), begins_.end());
    for (const std::uint32_t f : group)
        for (const Use& use : uses_of(flows[f])) members_[next_[place_of_[use.resource]]++] = f;
}

/// Progressive filling: the resource that is used up at the lowest level fixes its flows at that level.
void Sharing::fill(std::span<const std::uint32_t> group) {
    enter(group);
    heap_.clear();
    for (const std::uint32_t resource : resources_) heap_.emplace_back(level(resource), resource);
    const auto greater = std::greater<>{};
    std::make_heap(heap_.begin(), heap_.end(), greater);
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end(), greater);
        const auto [expected, resource] = heap_.back();
        heap_.pop_back();
        if (pending_[resource] == 0) continue;
        const double now = level(resource);  // only ever rises while others are fixed
        if (now > expected * (1 + rounding) + std::numeric_limits<double>::min() && !heap_.empty() &&
            now > heap_.front().first) {
            heap_.emplace_back(now, resource);
            std::push_heap(heap_.begin(), heap_.end(), greater);
            continue;
        }
        const std::uint32_t place = place_of_[resource];
        for (std::uint32_t i = begins_[place]; i < begins_[place + 1]; ++i)
            if (flows[members_[i]].rate == unset) fix(members_[i], now);
    }
}

void Sharing::fix(std::uint32_t f, double level) {
    Flow& flow = flows[f];
    flow.rate = level * flow.weight;
    for (const Use& use : uses_of(flow)) {
        left_[use.resource] -= use.seconds * flow.rate;
        demand_[use.resource] -= use.seconds * flow.weight;
        --pending_[use.resource];
    }
}

}  // namespace unisono::simulate
