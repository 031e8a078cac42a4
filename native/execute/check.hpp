#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace unisono {

/// std::invalid_argument that names the instruction of a program, unless the condition holds.
inline void require(bool condition, std::size_t row, const char* what) {
    if (!condition) throw std::invalid_argument("instruction " + std::to_string(row) + ": " + what);
}

inline bool within(std::int32_t value, std::size_t count) {
    return value >= 0 && static_cast<std::size_t>(value) < count;
}

}  // namespace unisono
