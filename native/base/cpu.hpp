#pragma once

#include <string>
#include <vector>

namespace unisono {

/// The vector instruction sets, of those that unisono has a use for, that the running processor has.
std::vector<std::string> vector_instructions();

}  // namespace unisono
