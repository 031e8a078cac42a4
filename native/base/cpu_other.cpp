#include "base/cpu.hpp"

namespace unisono {

std::vector<std::string> vector_instructions() { return {}; }

}  // namespace unisono
