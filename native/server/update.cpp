#include "server/update.hpp"

#include <cmath>
#include <cstring>

#include "reduce/reduce.hpp"
#include "server/hash.hpp"

namespace unisono::server {

namespace {

constexpr std::size_t worth_a_kernel = 256;  // elements: for less, finding it takes longer than adding

template <class T>
void apply_floating(const TableSpec& spec, const Target& target, const T* g, std::size_t n) {
    auto* w = reinterpret_cast<T*>(target.values);
    auto* first = reinterpret_cast<T*>(target.state);
    auto* second = first + n;
    const auto rate = static_cast<T>(spec.rates[0]);
    switch (spec.update) {
        case Update::add:
            for (std::size_t i = 0; i < n; ++i) w[i] += g[i];
            return;
        case Update::sgd:
            for (std::size_t i = 0; i < n; ++i) w[i] -= rate * g[i];
            return;
        case Update::momentum: {
            const auto keep = static_cast<T>(spec.rates[1]);
            for (std::size_t i = 0; i < n; ++i) {
                first[i] = keep * first[i] + g[i];
                w[i] -= rate * first[i];
            }
            return;
        }
        case Update::adagrad: {
            const auto epsilon = static_cast<T>(spec.rates[1]);
            for (std::size_t i = 0; i < n; ++i) {
                first[i] += g[i] * g[i];
                w[i] -= rate * g[i] / (std::sqrt(first[i]) + epsilon);
            }
            return;
        }
        case Update::adam: {
            const auto [_, b1, b2, e] = spec.rates;
            const auto beta1 = static_cast<T>(b1), beta2 = static_cast<T>(b2), epsilon = static_cast<T>(e);
            const auto steps = static_cast<double>(target.step);
            const auto scale1 = static_cast<T>(1 - std::pow(b1, steps));
            const auto scale2 = static_cast<T>(1 - std::pow(b2, steps));
            for (std::size_t i = 0; i < n; ++i) {
                first[i] = beta1 * first[i] + (1 - beta1) * g[i];
                second[i] = beta2 * second[i] + (1 - beta2) * (g[i] * g[i]);
                w[i] -= rate * (first[i] / scale1) / (std::sqrt(second[i] / scale2) + epsilon);
            }
            return;
        }
        default:
            return;
    }
}

constexpr std::size_t ahead = 16;  // rows are fetched so long before they are used

template <class T, class Change>
void change_rows(std::span<std::byte* const> rows, const std::byte* gradients, std::size_t n, Change change) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
        if (row + ahead < rows.size()) __builtin_prefetch(rows[row + ahead], 1);
        T* __restrict w = reinterpret_cast<T*>(rows[row]);
        const T* __restrict g = reinterpret_cast<const T*>(gradients) + row * n;
        for (std::size_t i = 0; i < n; ++i) w[i] = change(w[i], g[i]);
    }
}

template <class T>
void apply_to_floating_rows(const TableSpec& spec, std::span<std::byte* const> rows,
                            const std::byte* gradients) {
    const auto rate = static_cast<T>(spec.rates[0]);
    if (spec.update == Update::add)
        change_rows<T>(rows, gradients, spec.extent, [](T w, T g) { return w + g; });
    else
        change_rows<T>(rows, gradients, spec.extent, [rate](T w, T g) { return w - rate * g; });
}

template <class B, class A>
B converted(A a) {
    if constexpr (HalfPrecision<A> && HalfPrecision<B>)
        return narrow<B>(widen(a));
    else if constexpr (HalfPrecision<A>)
        return static_cast<B>(widen(a));
    else if constexpr (HalfPrecision<B>)
        return narrow<B>(static_cast<float>(a));
    else
        return static_cast<B>(a);
}

}  // namespace

std::size_t slots_of(const TableSpec& spec) {
    switch (spec.update) {
        case Update::momentum:
        case Update::adagrad:
            return 1;
        case Update::adam:
            return 2;
        case Update::python:
            return spec.slots;
        default:
            return 0;
    }
}

void apply(const TableSpec& spec, const Target& target, const std::byte* gradients, std::size_t elements) {
    const bool floating = spec.dtype == Dtype::f32 || spec.dtype == Dtype::f64;
    const bool short_sum = spec.update == Update::add && floating && elements < worth_a_kernel;
    if (!short_sum && (spec.update == Update::add || spec.update == Update::assign))
        accumulate(spec, target.values, gradients, elements);
    else if (spec.dtype == Dtype::f32)
        apply_floating(spec, target, reinterpret_cast<const float*>(gradients), elements);
    else
        apply_floating(spec, target, reinterpret_cast<const double*>(gradients), elements);
}

bool keeps_no_state(const TableSpec& spec) {
    return spec.update == Update::add || spec.update == Update::assign || spec.update == Update::sgd;
}

void apply_to_rows(const TableSpec& spec, std::span<std::byte* const> rows, const std::byte* gradients) {
    const bool floating = spec.dtype == Dtype::f32 || spec.dtype == Dtype::f64;
    if (floating && spec.update != Update::assign) {
        if (spec.dtype == Dtype::f32)
            apply_to_floating_rows<float>(spec, rows, gradients);
        else
            apply_to_floating_rows<double>(spec, rows, gradients);
        return;
    }
    const std::size_t width = spec.extent * spec.value_bytes();
    for (std::size_t row = 0; row < rows.size(); ++row)
        accumulate(spec, rows[row], gradients + row * width, spec.extent);
}

void accumulate(const TableSpec& spec, std::byte* into, const std::byte* more, std::size_t elements) {
    if (spec.update == Update::assign)
        std::memcpy(into, more, elements * spec.value_bytes());
    else
        combine(Op::sum, spec.dtype, into, more, elements, false);
}

void convert(Dtype from, const std::byte* source, Dtype to, std::byte* target, std::size_t elements) {
    if (from == to) {
        std::memcpy(target, source, elements * size_of(from));
        return;
    }
    with_type(from, [&]<class A>() {
        with_type(to, [&]<class B>() {
            if constexpr (Floating<A> && Floating<B>) {
                for (std::size_t i = 0; i < elements; ++i) {
                    A a;
                    std::memcpy(&a, source + i * sizeof a, sizeof a);
                    const B b = converted<B>(a);
                    std::memcpy(target + i * sizeof b, &b, sizeof b);
                }
            }
        });
    });
}

void initialise(const TableSpec& spec, std::int64_t key, std::uint64_t place, std::byte* values,
                std::size_t elements) {
    with_type(spec.dtype, [&]<class T>() {
        if constexpr (std::is_arithmetic_v<T>) {
            auto* at = reinterpret_cast<T*>(values);
            if (spec.init != Init::uniform) {
                for (std::size_t i = 0; i < elements; ++i) at[i] = static_cast<T>(spec.start);
                return;
            }
            const std::uint64_t row = mixed(static_cast<std::uint64_t>(key) ^ mixed(spec.seed));
            for (std::size_t i = 0; i < elements; ++i) {
                const auto random =
                    static_cast<double>(mixed(row + place + i) >> 11) * 0x1p-52 - 1;  // -1 to 1
                at[i] = static_cast<T>(spec.start * random);
            }
        }
    });
}

}  // namespace unisono::server
