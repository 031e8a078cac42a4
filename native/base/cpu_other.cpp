#include "base/cpu.hpp"

namespace unisono {

std::vector<std::string> vector_instructions() { return {}; }

std::uint64_t count_cycles() { return 0; }

}  // namespace unisono
