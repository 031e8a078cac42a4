#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "simulate/ranks.hpp"

namespace unisono::simulate {

/// A round as it is kept for ranks that come to it at different times: its messages, the links on their ways,
/// and which messages each rank has.
struct Round {
    std::vector<std::int32_t> source, target;
    std::vector<double> nbytes, start, out, into, plain;
    std::vector<std::uint32_t> route_begin;  // one more than there are messages; empty without links
    std::vector<std::uint32_t> links;
    std::vector<std::uint32_t> of_rank_begin;
    std::vector<std::uint32_t> of_rank;
    std::int64_t repeat = 1;
    std::int32_t dies = -1;  // the rank that fails when it comes here

    Messages messages() const { return {source, target, nbytes, start, out, into, plain}; }
    std::span<const std::uint32_t> route(std::uint32_t m) const {
        if (route_begin.empty()) return {};
        return std::span(links).subspan(route_begin[m], route_begin[m + 1] - route_begin[m]);
    }
    /// Fills in which messages each rank has.
    void index(std::size_t ranks);
};

/// What messages go through: two ports of each rank, and links. There may be several times as many ranks as
/// ports: then the ranks r, r + ports, … are parts of a vector that one rank works on at the same time.
struct Network {
    std::size_t ports;
    std::vector<double> link_beta;
    bool fair;
};

/// Advances all ranks through all rounds, each as fast as its own messages let it. Messages that are under
/// way share ports and links, those of older rounds first, in proportion to their sizes; or all alike if
/// `fair`.
void run_flows(Ranks& ranks, Album& album, std::span<const Round> rounds, const Network& network,
               std::int64_t first_round);

}  // namespace unisono::simulate
