#include <cstring>

#include "reduce/copy.hpp"

namespace unisono {

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

void stream(std::byte* to, const std::byte* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace unisono
