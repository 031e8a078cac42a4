#pragma once

#include <cstring>

#include "base/dtype.hpp"

namespace unisono {

// How a few elements are loaded, as lanes of the type that is computed in, and stored. Memory may be
// unaligned.

template <class T>
T load(const std::byte* from, std::size_t index) {
    T value;
    std::memcpy(&value, from + index * sizeof(T), sizeof(T));
    return value;
}

template <class T>
void store(std::byte* to, std::size_t index, T value) {
    std::memcpy(to + index * sizeof(T), &value, sizeof(T));
}

template <class T, std::size_t count>
struct Lanes {
    T lane[count];
    static constexpr std::size_t size = count;
};

/// One element of any type.
template <class T>
struct One {
    using Element = T;
    using Values = Lanes<T, 1>;

    static Values get(const std::byte* from, std::size_t index) { return {{load<T>(from, index)}}; }
    static void put(std::byte* to, std::size_t index, const Values& values) {
        store(to, index, values.lane[0]);
    }
};

template <HalfPrecision T>
struct One<T> {
    using Element = T;
    using Values = Lanes<float, 1>;

    static Values get(const std::byte* from, std::size_t index) { return {{widen(load<T>(from, index))}}; }
    static void put(std::byte* to, std::size_t index, const Values& values) {
        store(to, index, narrow<T>(values.lane[0]));
    }
};

/// The lower halves of eight words, and then the upper ones: so no lane moves between vectors of different
/// width, which would halve the speed.
struct BFloatBlock {
    static constexpr std::size_t words = 8;
    using Element = BFloat;
    using Values = Lanes<float, 2 * words>;

    static Values get(const std::byte* from, std::size_t index) {
        Values values;
        for (std::size_t i = 0; i < words; ++i) {
            const auto word = load<std::uint32_t>(from, index * words + i);
            values.lane[i] = std::bit_cast<float>(word << 16);
            values.lane[words + i] = std::bit_cast<float>(word & 0xffff0000u);
        }
        return values;
    }
    static void put(std::byte* to, std::size_t index, const Values& values) {
        for (std::size_t i = 0; i < words; ++i) {
            const std::uint32_t lower = rounded_to_bfloat(values.lane[i]) >> 16;
            const std::uint32_t upper = rounded_to_bfloat(values.lane[words + i]) & 0xffff0000u;
            store(to, index * words + i, lower | upper);
        }
    }
};

}  // namespace unisono
