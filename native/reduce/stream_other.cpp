#include <cstring>

#include "reduce/stream.hpp"

namespace unisono {

void stream(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace unisono
