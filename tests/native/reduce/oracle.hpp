#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "reduce/reduce.hpp"

/// Reductions of one element at a time, written without looking at how native/reduce does them.
namespace oracle {

using namespace unisono;

inline const std::vector<Op> ops = {Op::sum,     Op::prod,   Op::min,    Op::max,
                                    Op::bit_and, Op::bit_or, Op::bit_xor};
inline const std::vector<Dtype> dtypes = {Dtype::f64, Dtype::f32, Dtype::f16,    Dtype::bf16, Dtype::i8,
                                          Dtype::i16, Dtype::i32, Dtype::i64,    Dtype::u8,   Dtype::u16,
                                          Dtype::u32, Dtype::u64, Dtype::boolean};

template <class T>
T reduce(Op op, T a, T b) {
    if constexpr (std::same_as<T, Boolean>) {
        const int ones = (a.byte ? 1 : 0) + (b.byte ? 1 : 0);
        if (op == Op::bit_xor) return {static_cast<std::uint8_t>(ones == 1)};
        const bool any = op == Op::sum || op == Op::max || op == Op::bit_or;
        return {static_cast<std::uint8_t>(any ? ones > 0 : ones == 2)};
    } else if constexpr (Floating<T>) {
        if (op == Op::sum) return a + b;
        if (op == Op::prod) return a * b;
        if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
        if (a == b) return b;  // 0 and -0
        return (op == Op::min) == (a < b) ? a : b;
    } else {
        // 128 bits hold every exact sum and product; the lower ones are the wrapped result.
        __extension__ using Exact = __int128;
        const Exact x = a;
        const Exact y = b;
        if (op == Op::sum) return static_cast<T>(x + y);
        if (op == Op::prod) return static_cast<T>(x * y);
        if (op == Op::min) return static_cast<T>(x < y ? x : y);
        if (op == Op::max) return static_cast<T>(x < y ? y : x);
        if (op == Op::bit_and) return static_cast<T>(x & y);
        if (op == Op::bit_or) return static_cast<T>(x | y);
        return static_cast<T>(x ^ y);
    }
}

/// From left to right, half precision in floats.
template <class T>
T reduce_all(Op op, const std::vector<T>& operands) {
    if constexpr (HalfPrecision<T>) {
        std::vector<float> wide;
        for (const T& operand : operands) wide.push_back(widen(operand));
        return narrow<T>(reduce_all(op, wide));
    } else {
        T result = operands[0];
        for (std::size_t i = 1; i < operands.size(); ++i) result = reduce(op, result, operands[i]);
        return result;
    }
}

/// The same bits, or both not a number: which NaN it is, is left open.
template <class T>
bool same(const T& a, const T& b) {
    if constexpr (HalfPrecision<T>) {
        if (std::isnan(widen(a)) && std::isnan(widen(b))) return true;
    } else if constexpr (Floating<T>) {
        if (std::isnan(a) && std::isnan(b)) return true;
    }
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Elements that begin at any byte of a buffer that ends with them, so that a sanitizer sees an access
/// beyond.
template <class T>
class Array {
  public:
    Array(std::size_t elements, std::size_t shift) : shift_(shift), bytes_(shift + elements * sizeof(T)) {}

    std::byte* data() { return bytes_.data() + shift_; }
    T get(std::size_t index) {
        T value;
        std::memcpy(&value, data() + index * sizeof(T), sizeof(T));
        return value;
    }
    void set(std::size_t index, T value) { std::memcpy(data() + index * sizeof(T), &value, sizeof(T)); }

  private:
    std::size_t shift_;
    std::vector<std::byte> bytes_;
};

/// Any bits, or one of the values at which arithmetic turns: these meet each other often.
template <class T>
T draw(std::mt19937_64& random) {
    T value;
    const std::uint64_t bits = random();
    std::memcpy(&value, &bits, sizeof(T));
    if (random() % 2 == 0) return value;
    if constexpr (HalfPrecision<T>) {
        return narrow<T>(draw<float>(random));
    } else if constexpr (Floating<T>) {
        using Limits = std::numeric_limits<T>;
        const T edges[] = {
            T(0),          -T(0),         T(1),  T(-1),    Limits::infinity(),   -Limits::infinity(),
            Limits::max(), Limits::min(), T(-3), T(1) / 3, Limits::denorm_min(), Limits::quiet_NaN()};
        return edges[random() % std::size(edges)];
    } else if constexpr (std::integral<T>) {
        using Limits = std::numeric_limits<T>;
        const T edges[] = {T(0), T(1), static_cast<T>(-1), Limits::min(), Limits::max(), T(7)};
        return edges[random() % std::size(edges)];
    } else {
        return {static_cast<std::uint8_t>(random() % 2)};
    }
}

template <class T>
void fill(Array<T>& array, std::size_t elements, std::mt19937_64& random) {
    for (std::size_t i = 0; i < elements; ++i) array.set(i, draw<T>(random));
}

}  // namespace oracle
