#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace unisono::simulate {

/// Flows through resources, each of which has one second per second to give. A flow's rate is in flows per
/// second: at rate y it takes y times its use of every resource that it goes through.
///
/// Rates are max-min fair in y / weight: no flow can have more without another having less that has no more
/// than it. Flows of a lower rank (an older round) are served first, and those of higher ones share what is
/// left.
class Sharing {
  public:
    struct Use {
        std::uint32_t resource;
        double seconds;
    };
    struct Flow {
        std::int64_t rank;
        double weight;
        std::uint32_t first_use;
        std::uint32_t uses;
        double rate;
    };

    explicit Sharing(std::size_t resources) : left_(resources), demand_(resources), pending_(resources) {}

    void clear() {
        flows.clear();
        uses.clear();
    }

    /// Sets the rates of all flows.
    void solve();

    std::vector<Flow> flows;
    std::vector<Use> uses;

  private:
    void fill(std::span<const std::uint32_t> group);
    void enter(std::span<const std::uint32_t> group);
    void fix(std::uint32_t flow, double level);
    std::span<const Use> uses_of(const Flow& flow) const { return {uses.data() + flow.first_use, flow.uses}; }
    double level(std::uint32_t resource) const;

    std::vector<double> left_;              // of every resource's second
    std::vector<double> demand_;            // of the flows that have no rate yet, per level
    std::vector<std::uint32_t> pending_;    // how many these are
    std::vector<std::uint32_t> order_;      // flows by rank
    std::vector<std::uint32_t> resources_;  // that the group uses
    std::vector<std::uint32_t> begins_;    // of each resource's flows in members_, by its place in resources_
    std::vector<std::uint32_t> place_of_;  // of a resource in resources_
    std::vector<std::uint32_t> members_;
    std::vector<std::uint32_t> next_;
    std::vector<std::pair<double, std::uint32_t>> heap_;
};

}  // namespace unisono::simulate
