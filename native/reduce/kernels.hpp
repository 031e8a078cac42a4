#pragma once

#include <concepts>
#include <type_traits>
#include <vector>

#include "reduce/loops.hpp"

namespace unisono {

/// The functions of reduce.hpp for one kind of processor; arguments are valid.
struct Kernels {
    void (*combine)(Op, Dtype, std::byte*, const std::byte*, std::size_t, bool other_first);
    void (*combine_many)(Op, Dtype, std::byte*, std::span<const std::byte* const>, std::size_t);
    void (*scale)(Dtype, std::byte*, std::size_t, double);
    void (*divide)(Dtype, std::byte*, std::size_t, std::int64_t);
};

/// What the running processor is able to execute, fastest first. There is one file kernels_*.cpp per family.
std::vector<Kernels> supported_kernels();

/// What every processor executes. Other structs of this shape are in kernels_*.cpp: `run` compiles a loop for
/// their instructions, and `Pack` says how they like to load a type.
struct AnyCpu {
    template <class T>
    using Pack = std::conditional_t<std::same_as<T, BFloat>, BFloatBlock, One<T>>;

    template <class Body>
    static void run(Body body) {
        body();
    }
};

/// Signed and unsigned integers differ in min and max only: otherwise they share a loop.
template <Op op, class T>
struct Operand {
    using Type = T;
};

template <Op op, std::signed_integral T>
    requires(op != Op::min && op != Op::max)
struct Operand<op, T> {
    using Type = std::make_unsigned_t<T>;
};

/// Calls body.operator()<op, T>(), unless there is no such reduction.
template <class Body>
void with_operation(Op op, Dtype dtype, Body&& body) {
    with_op(op, [&]<Op o>() {
        with_type(dtype, [&]<class T>() {
            if constexpr (!(is_bitwise(o) && Floating<T>))
                body.template operator()<o, typename Operand<o, T>::Type>();
        });
    });
}

/// Runs the body over the packs of an array, and then over the elements that do not fill one, from an offset
/// in bytes.
template <class Cpu, class T, class Body>
void run_over(std::size_t elements, Body body) {
    using Pack = typename Cpu::template Pack<T>;
    constexpr std::size_t width = Pack::Values::size;
    Cpu::run([=] {
        const std::size_t packs = elements / width;
        body.template operator()<Pack>(packs, 0);
        if constexpr (width > 1)
            body.template operator()<One<T>>(elements % width, packs * width * sizeof(T));
    });
}

template <class Cpu, Op op, class T>
void combine_typed(std::byte* into, const std::byte* other, std::size_t elements, bool other_first) {
    constexpr bool order_shows = Floating<T> && (op == Op::min || op == Op::max);
    run_over<Cpu, T>(elements, [=]<class Pack>(std::size_t packs, std::size_t offset) {
        const bool reversed = order_shows && other_first;
        fold<Pack, op>(into + offset, packs, (reversed ? other : into) + offset,
                       (reversed ? into : other) + offset);
    });
}

constexpr std::size_t few = 4;

/// Up to four at a time stay in registers: twice as fast in the cache as one after the other.
template <class Cpu, Op op, class T>
void combine_few(std::byte* into, std::span<const std::byte* const> from, std::size_t elements) {
    run_over<Cpu, T>(elements, [=]<class Pack>(std::size_t packs, std::size_t at) {
        switch (from.size()) {
            case 2:
                return fold<Pack, op>(into + at, packs, from[0] + at, from[1] + at);
            case 3:
                return fold<Pack, op>(into + at, packs, from[0] + at, from[1] + at, from[2] + at);
            default:
                return fold<Pack, op>(into + at, packs, from[0] + at, from[1] + at, from[2] + at,
                                      from[3] + at);
        }
    });
}

template <class Cpu, Op op, HalfPrecision T>
void combine_many_typed(std::byte* into, std::span<const std::byte* const> sources, std::size_t elements) {
    if (sources.size() <= few) return combine_few<Cpu, op, T>(into, sources, elements);
    run_over<Cpu, T>(elements, [=]<class Pack>(std::size_t packs, std::size_t offset) {
        accumulate<Pack, op>(into, offset, packs, sources);
    });
}

/// Memory is read once: what is in the first-level cache is combined with all sources before going on. `into`
/// may be a source, so that it is written last.
template <class Cpu, Op op, class T>
void combine_many_typed(std::byte* into, std::span<const std::byte* const> sources, std::size_t elements) {
    if (sources.size() <= few) return combine_few<Cpu, op, T>(into, sources, elements);
    constexpr std::size_t chunk = 8192;
    alignas(64) std::byte results[chunk];
    const std::byte* from[few];
    for (std::size_t begin = 0; begin < elements * sizeof(T); begin += chunk) {
        const std::size_t count = std::min(chunk, elements * sizeof(T) - begin) / sizeof(T);
        std::size_t next = 0;
        while (next < sources.size()) {
            const std::size_t results_so_far = next > 0 ? 1 : 0;
            const std::size_t more = std::min(few - results_so_far, sources.size() - next);
            from[0] = results;
            for (std::size_t i = 0; i < more; ++i) from[results_so_far + i] = sources[next + i] + begin;
            next += more;
            combine_few<Cpu, op, T>(next < sources.size() ? results : into + begin,
                                    std::span(from).first(results_so_far + more), count);
        }
    }
}

template <class Cpu>
void combine_for(Op op, Dtype dtype, std::byte* into, const std::byte* other, std::size_t elements,
                 bool other_first) {
    with_operation(op, dtype,
                   [&]<Op o, class T>() { combine_typed<Cpu, o, T>(into, other, elements, other_first); });
}

template <class Cpu>
void combine_many_for(Op op, Dtype dtype, std::byte* into, std::span<const std::byte* const> sources,
                      std::size_t elements) {
    with_operation(op, dtype,
                   [&]<Op o, class T>() { combine_many_typed<Cpu, o, T>(into, sources, elements); });
}

template <class Cpu>
void scale_for(Dtype dtype, std::byte* values, std::size_t elements, double factor) {
    with_type(dtype, [&]<class T>() {
        if constexpr (Floating<T>)
            run_over<Cpu, T>(elements, [=]<class Pack>(std::size_t packs, std::size_t offset) {
                map<Pack>(values + offset, packs,
                          [=]<class V>(V value) { return value * static_cast<V>(factor); });
            });
    });
}

template <class Cpu>
void divide_for(Dtype dtype, std::byte* values, std::size_t elements, std::int64_t by) {
    with_type(dtype, [&]<class T>() {
        if constexpr (!std::same_as<T, Boolean>)
            run_over<Cpu, T>(elements, [=]<class Pack>(std::size_t packs, std::size_t offset) {
                map<Pack>(values + offset, packs, [=](auto value) { return divided(value, by); });
            });
    });
}

template <class Cpu>
constexpr Kernels kernels_for{
    .combine = combine_for<Cpu>,
    .combine_many = combine_many_for<Cpu>,
    .scale = scale_for<Cpu>,
    .divide = divide_for<Cpu>,
};

}  // namespace unisono
