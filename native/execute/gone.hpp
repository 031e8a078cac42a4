#pragma once

#include <span>
#include <vector>

#include "execute/counted_link.hpp"
#include "execute/host.hpp"

namespace unisono {

/// Ranks that make no more calls, as far as one rank can see without asking them.
struct Gone {
    std::vector<int> ended;  // their process has
    std::vector<int> left;   // their communicator is closed, or the connection to them
};

/// Reads nothing from the links: what has arrived stays there. No call may be under way.
Gone look_for_gone(const Host& host, std::span<const CountedLink> links);

}  // namespace unisono
