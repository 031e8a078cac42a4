#pragma once

#include <algorithm>
#include <span>

#include "reduce/arithmetic.hpp"
#include "reduce/packs.hpp"

namespace unisono {

// Loops over packs, plain enough for the compiler to make vector instructions of them.
// No iteration touches what another one does, also if two arrays are the same; hence ivdep, not restrict.

template <Op op, class Values>
Values combined(const Values& a, const Values& b) {
    Values result;
#pragma GCC unroll 16
    for (std::size_t i = 0; i < Values::size; ++i) result.lane[i] = apply<op>(a.lane[i], b.lane[i]);
    return result;
}

template <class Pack, class Function>
void map(std::byte* values, std::size_t packs, Function function) {
    for (std::size_t i = 0; i < packs; ++i) {
        auto pack = Pack::get(values, i);
        for (auto& lane : pack.lane) lane = function(lane);
        Pack::put(values, i, pack);
    }
}

/// into = first ∘ others..., in registers.
template <class Pack, Op op, class... Others>
void fold(std::byte* into, std::size_t packs, const std::byte* first, const Others*... others) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < packs; ++i) {
        auto result = Pack::get(first, i);
        ((result = combined<op>(result, Pack::get(others, i))), ...);
        Pack::put(into, i, result);
    }
}

/// into = sources[0] ∘ sources[1] ∘ …, all from the byte `begin`. Between the operands, a chunk of results
/// stays in the first-level cache, unrounded.
template <class Pack, Op op>
void accumulate(std::byte* into, std::size_t begin, std::size_t packs,
                std::span<const std::byte* const> sources) {
    constexpr std::size_t stride = sizeof(typename Pack::Element) * Pack::Values::size;
    constexpr std::size_t chunk = 1024 / Pack::Values::size;
    typename Pack::Values results[chunk];
    for (std::size_t start = 0; start < packs; start += chunk) {
        const std::size_t count = std::min(chunk, packs - start);
        const std::size_t offset = begin + start * stride;
        for (std::size_t i = 0; i < count; ++i) results[i] = Pack::get(sources[0] + offset, i);
        for (const std::byte* other : sources.subspan(1))
            for (std::size_t i = 0; i < count; ++i)
                results[i] = combined<op>(results[i], Pack::get(other + offset, i));
        for (std::size_t i = 0; i < count; ++i) Pack::put(into + offset, i, results[i]);
    }
}

}  // namespace unisono
