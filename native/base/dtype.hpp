#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace unisono {

/// What the elements of an array are.
enum class Dtype : std::uint8_t { f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

/// IEEE 754 binary16: 1 bit of sign, 5 of exponent, 10 of fraction.
struct Half {
    std::uint16_t bits;
};

/// bfloat16: the upper half of a float.
struct BFloat {
    std::uint16_t bits;
};

/// A truth value as NumPy stores it. Not C++'s bool, which must not be loaded from a byte other than 0 and 1.
struct Boolean {
    std::uint8_t byte;
};

/// The types that are stored in 16 bits and computed with in 32.
template <class T>
concept HalfPrecision = std::same_as<T, Half> || std::same_as<T, BFloat>;

template <class T>
concept Floating = std::floating_point<T> || HalfPrecision<T>;

/// Calls body.operator()<T>() with the type of the elements. The only switch over Dtype.
template <class Body>
constexpr decltype(auto) with_type(Dtype dtype, Body&& body) {
    switch (dtype) {
        case Dtype::f64:
            return body.template operator()<double>();
        case Dtype::f32:
            return body.template operator()<float>();
        case Dtype::f16:
            return body.template operator()<Half>();
        case Dtype::bf16:
            return body.template operator()<BFloat>();
        case Dtype::i8:
            return body.template operator()<std::int8_t>();
        case Dtype::i16:
            return body.template operator()<std::int16_t>();
        case Dtype::i32:
            return body.template operator()<std::int32_t>();
        case Dtype::i64:
            return body.template operator()<std::int64_t>();
        case Dtype::u8:
            return body.template operator()<std::uint8_t>();
        case Dtype::u16:
            return body.template operator()<std::uint16_t>();
        case Dtype::u32:
            return body.template operator()<std::uint32_t>();
        case Dtype::u64:
            return body.template operator()<std::uint64_t>();
        case Dtype::boolean:
            return body.template operator()<Boolean>();
    }
    throw std::invalid_argument("unknown dtype");
}

constexpr std::size_t size_of(Dtype dtype) {
    return with_type(dtype, []<class T>() { return sizeof(T); });
}

/// As NumPy calls it.
constexpr const char* name_of(Dtype dtype) {
    constexpr const char* names[] = {"float64", "float32", "float16", "bfloat16", "int8",   "int16", "int32",
                                     "int64",   "uint8",   "uint16",  "uint32",   "uint64", "bool"};
    return with_type(dtype, [&]<class>() { return names[static_cast<std::size_t>(dtype)]; });
}

// The conversions round to nearest even and make a NaN quiet, keeping what fits of its payload, exactly like
// the F16C instructions. They let no subnormal float into the arithmetic: where those are flushed to zero,
// halves are the same.

constexpr float widen(Half half) {
    constexpr std::uint32_t rebias = (127 - 15) << 23;
    constexpr std::uint32_t smallest = 113u << 23;  // 2^-14, the smallest normal half
    const std::uint32_t sign = (half.bits & 0x8000u) << 16;
    const std::uint32_t magnitude = (half.bits & 0x7fffu) << 13;
    const std::uint32_t normal = magnitude + rebias;
    const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude + smallest) -
                                                        std::bit_cast<float>(smallest));
    const std::uint32_t infinite = magnitude | 0x7f800000u;
    const std::uint32_t quiet = half.bits & 0x3ffu ? 0x400000u : 0;
    const std::uint32_t exponent = half.bits & 0x7c00u;
    return std::bit_cast<float>(sign | (exponent == 0         ? subnormal
                                        : exponent == 0x7c00u ? infinite | quiet
                                                              : normal));
}

constexpr float widen(BFloat value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

template <HalfPrecision T>
constexpr T narrow(float value);

template <>
constexpr Half narrow<Half>(float value) {
    constexpr std::uint32_t rebias = (127 - 15) << 23;
    constexpr std::uint32_t smallest = 113u << 23;  // 2^-14, the smallest normal half
    constexpr std::uint32_t overflow = 143u << 23;  // 2^16, beyond what rounds to a finite half
    constexpr std::uint32_t half_ulp =
        126u << 23;  // 0.5: its last bit is worth 2^-24, as that of a subnormal half
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    // Adding just less than half of the last place that stays, and one more if that place is odd.
    const std::uint32_t normal = (magnitude - rebias + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    const std::uint32_t tiny = magnitude < smallest ? magnitude : 0;
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(tiny) + std::bit_cast<float>(half_ulp)) - half_ulp;
    const std::uint32_t infinite = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x3ffu) : 0x7c00u;
    const std::uint32_t result = magnitude < smallest ? subnormal : magnitude >= overflow ? infinite : normal;
    return {static_cast<std::uint16_t>(sign | result)};
}

/// The bits of a float whose upper half is the nearest BFloat.
constexpr std::uint32_t rounded_to_bfloat(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t quiet = bits | 0x400000u;
    return value != value ? quiet : bits + 0x7fffu + (bits >> 16 & 1u);
}

template <>
constexpr BFloat narrow<BFloat>(float value) {
    return {static_cast<std::uint16_t>(rounded_to_bfloat(value) >> 16)};
}

}  // namespace unisono
