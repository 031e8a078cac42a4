#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulate/sharing.hpp"

namespace unisono::simulate {

/// Flows that move, the resources that they go through, and the rates that these give them.
class UnderWay {
  public:
    struct Ending {
        double time;
        std::uint32_t flow;
        std::uint32_t version;
    };

    explicit UnderWay(std::size_t resources)
        : on_resource_(resources), visited_(resources), sharing_(resources) {}

    /// A flow that goes through nothing yet. Those of a lower order are served first.
    std::uint32_t create();
    void set(std::uint32_t flow, std::int64_t order, double weight, double now);
    void enter(std::uint32_t flow, std::uint32_t resource, double seconds);
    /// It has ended; its number may be given to another one.
    void remove(std::uint32_t flow);

    /// Gives new rates to all flows that what has changed concerns, and says when these will end.
    std::span<const Ending> share(double now);

    std::uint32_t version(std::uint32_t flow) const { return flows_[flow].version; }
    /// Seconds that it would need with nobody in its way.
    double alone(std::uint32_t flow) const;

  private:
    struct Flow {
        std::int64_t order = 0;
        double weight = 1;
        double left = 1;  // of the flow, from 1 to 0
        double rate = 0;
        double since = 0;
        std::uint32_t version = 0;
        std::uint32_t visited = 0;
        std::vector<Sharing::Use> uses;
        std::vector<std::uint32_t> places;  // in the lists of its resources
    };

    void share_around(std::uint32_t resource, double now);
    void set_rate(std::uint32_t flow, double rate, double now);

    std::vector<Flow> flows_;
    std::vector<std::uint32_t> free_;
    std::vector<std::vector<std::uint32_t>> on_resource_;
    std::vector<std::uint32_t> changed_, joined_, frontier_, visited_;
    std::uint32_t visit_ = 0;
    Sharing sharing_;
    std::vector<Ending> endings_;
};

}  // namespace unisono::simulate
