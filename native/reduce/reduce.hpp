#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.hpp"

namespace unisono {

/// Integers wrap. Minimum and maximum are NaN if an operand is. For booleans, sum and max are "or", prod and
/// min "and".
enum class Op : std::uint8_t { sum, prod, min, max, bit_and, bit_or, bit_xor };

/// False for bits of floating-point numbers. What is not supported is a std::invalid_argument below.
bool supports(Op op, Dtype dtype);

// Memory may start at any byte. Arrays are distinct or the same, never shifted by less than their length.

/// into = into ∘ other, or other ∘ into: the order shows in the sign of the minimum of 0 and -0, for example.
void combine(Op op, Dtype dtype, std::byte* into, const std::byte* other, std::size_t elements,
             bool other_first);

/// into = sources[0] ∘ sources[1] ∘ …, from left to right; `into` may be any of the two or more sources. Half
/// precision is rounded once, at the end.
void combine_many(Op op, Dtype dtype, std::byte* into, std::span<const std::byte* const> sources,
                  std::size_t elements);

/// Multiplies floating-point numbers, half precision in 32 bits.
void scale(Dtype dtype, std::byte* values, std::size_t elements, double factor);

/// Divides by a positive number, integers rounding toward zero. For an average more exact than scale(1 / by).
/// Booleans are refused.
void divide(Dtype dtype, std::byte* values, std::size_t elements, std::int64_t by);

}  // namespace unisono
