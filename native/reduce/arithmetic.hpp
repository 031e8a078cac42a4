#pragma once

#include <concepts>
#include <type_traits>

#include "reduce/reduce.hpp"

namespace unisono {

constexpr bool is_bitwise(Op op) { return op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor; }

/// Calls body.operator()<op>(). The only switch over Op.
template <class Body>
void with_op(Op op, Body&& body) {
    switch (op) {
        case Op::sum:
            return body.template operator()<Op::sum>();
        case Op::prod:
            return body.template operator()<Op::prod>();
        case Op::min:
            return body.template operator()<Op::min>();
        case Op::max:
            return body.template operator()<Op::max>();
        case Op::bit_and:
            return body.template operator()<Op::bit_and>();
        case Op::bit_or:
            return body.template operator()<Op::bit_or>();
        case Op::bit_xor:
            return body.template operator()<Op::bit_xor>();
    }
    throw std::invalid_argument("unknown reduction");
}

template <Op op, std::floating_point T>
constexpr T apply(T a, T b) {
    static_assert(!is_bitwise(op));
    if constexpr (op == Op::sum) return a + b;
    if constexpr (op == Op::prod) return a * b;
    // A NaN is the only value that differs from itself. "|": a branch would not vectorise.
    if constexpr (op == Op::min) return ((a < b) | (a != a)) ? a : b;
    if constexpr (op == Op::max) return ((a > b) | (a != a)) ? a : b;
}

template <Op op, std::integral T>
constexpr T apply(T a, T b) {
    // Unsigned, because signed overflow is undefined; not narrower than int, because that would be promoted
    // to int.
    using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
    if constexpr (op == Op::sum) return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
    if constexpr (op == Op::prod) return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    if constexpr (op == Op::min) return a < b ? a : b;
    if constexpr (op == Op::max) return a > b ? a : b;
    if constexpr (op == Op::bit_and) return static_cast<T>(a & b);
    if constexpr (op == Op::bit_or) return static_cast<T>(a | b);
    if constexpr (op == Op::bit_xor) return static_cast<T>(a ^ b);
}

template <Op op, std::same_as<Boolean> T>
constexpr T apply(T a, T b) {
    const bool x = a.byte != 0;
    const bool y = b.byte != 0;
    if constexpr (op == Op::sum || op == Op::max || op == Op::bit_or)
        return {static_cast<std::uint8_t>(x | y)};
    if constexpr (op == Op::prod || op == Op::min || op == Op::bit_and)
        return {static_cast<std::uint8_t>(x & y)};
    if constexpr (op == Op::bit_xor) return {static_cast<std::uint8_t>(x ^ y)};
}

template <std::floating_point T>
constexpr T divided(T value, std::int64_t by) {
    return value / static_cast<T>(by);
}

template <std::integral T>
constexpr T divided(T value, std::int64_t by) {
    // There are vector instructions for dividing doubles, none for integers. The result is exact: a quotient
    // of numbers below 2^53 that is not whole differs from the next whole number by more than the rounding
    // does.
    if constexpr (sizeof(T) <= 4) return static_cast<T>(static_cast<double>(value) / static_cast<double>(by));
    if constexpr (sizeof(T) == 8) return value / static_cast<T>(by);
}

}  // namespace unisono
