#pragma once

#include "simulate/ranks.hpp"

namespace unisono::simulate {

/// A round, `repeat` times, in which no rank sends or receives more than one message and no links are shared:
/// a message ends when both of its ranks have begun and it has had its time. Once all ranks advance alike,
/// the rest is a product.
/// False, and nothing is done, where a port is shared.
bool advance_ports(Ranks& ranks, Album& album, const Messages& messages, std::int64_t repeat,
                   std::int64_t round);

}  // namespace unisono::simulate
