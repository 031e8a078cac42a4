#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unisono {

/// The vector instruction sets, of those that unisono has a use for, that the running processor has.
std::vector<std::string> vector_instructions();

/// A counter of the running core that goes on at one speed, if the kernel says so (see clock.cpp); 0 if there
/// is none.
std::uint64_t count_cycles();

}  // namespace unisono
