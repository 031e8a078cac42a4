#include "reduce/reduce.hpp"

#include <functional>
#include <stdexcept>

#include "expect.hpp"
#include "oracle.hpp"
#include "reduce/kernels.hpp"

namespace {

using namespace unisono;
using oracle::Array;

/// Calls the body for every reduction that exists and its type.
template <class Body>
void for_each_operation(Body body) {
    for (const Dtype dtype : oracle::dtypes)
        for (const Op op : oracle::ops)
            if (supports(op, dtype))
                with_type(dtype, [&]<class T>() { body.template operator()<T>(op, dtype); });
}

/// Around every width of vectors.
std::vector<std::size_t> lengths() {
    std::vector<std::size_t> result;
    for (std::size_t length = 0; length <= 70; ++length) result.push_back(length);
    return result;
}

template <class T>
void check_combine(const Kernels& kernels, Op op, Dtype dtype, std::size_t elements, bool other_first,
                   std::mt19937_64& random) {
    Array<T> into(elements, random() % 16);
    Array<T> other(elements, random() % 16);
    oracle::fill(into, elements, random);
    oracle::fill(other, elements, random);
    Array<T> before = into;
    kernels.combine(op, dtype, into.data(), other.data(), elements, other_first);
    for (std::size_t i = 0; i < elements; ++i) {
        const T a = before.get(i);
        const T b = other.get(i);
        const T expected = oracle::reduce_all(op, other_first ? std::vector{b, a} : std::vector{a, b});
        expect(oracle::same(into.get(i), expected), name_of(dtype));
    }
}

void test_combine_agrees_with_the_oracle(const Kernels& kernels) {
    std::mt19937_64 random(1);
    for_each_operation([&]<class T>(Op op, Dtype dtype) {
        for (const std::size_t elements : lengths())
            for (const bool other_first : {false, true})
                check_combine<T>(kernels, op, dtype, elements, other_first, random);
    });
}

void test_combine_takes_the_same_array_twice(const Kernels& kernels) {
    std::mt19937_64 random(2);
    for_each_operation([&]<class T>(Op op, Dtype dtype) {
        Array<T> into(67, 1);
        oracle::fill(into, 67, random);
        Array<T> before = into;
        kernels.combine(op, dtype, into.data(), into.data(), 67, false);
        for (std::size_t i = 0; i < 67; ++i)
            expect(
                oracle::same(into.get(i), oracle::reduce_all(op, std::vector{before.get(i), before.get(i)})),
                "an array combined with itself");
    });
}

template <class T>
void check_combine_many(const Kernels& kernels, Op op, Dtype dtype, std::size_t elements, std::size_t count,
                        std::mt19937_64& random) {
    std::vector<Array<T>> arrays;
    for (std::size_t i = 0; i < count; ++i) {
        arrays.emplace_back(elements, random() % 16);
        oracle::fill(arrays.back(), elements, random);
    }
    std::vector<Array<T>> before = arrays;
    std::vector<const std::byte*> sources;
    for (auto& array : arrays) sources.push_back(array.data());
    Array<T> apart(elements, 3);
    Array<T>& into = random() % 2 == 0 ? apart : arrays[random() % count];
    kernels.combine_many(op, dtype, into.data(), sources, elements);
    for (std::size_t i = 0; i < elements; ++i) {
        std::vector<T> operands;
        for (auto& array : before) operands.push_back(array.get(i));
        expect(oracle::same(into.get(i), oracle::reduce_all(op, operands)), name_of(dtype));
    }
}

void test_combine_many_agrees_with_the_oracle(const Kernels& kernels) {
    std::mt19937_64 random(3);
    for_each_operation([&]<class T>(Op op, Dtype dtype) {
        for (const std::size_t elements : {0, 1, 7, 8, 33, 70})
            for (const std::size_t count : {2, 3, 4, 5, 7, 8, 11})
                check_combine_many<T>(kernels, op, dtype, elements, count, random);
        // Longer than what is held in the cache between two operands.
        check_combine_many<T>(kernels, op, dtype, 9001, 6, random);
    });
}

/// The parts of the distance from 1 to the next number are each too small to be seen beside 1; together they
/// are not.
template <class T>
void test_combine_many_rounds_once(Dtype dtype, float distance) {
    for (const std::size_t count : {2, 3, 4}) {
        const std::vector<T> operands(count, narrow<T>(distance / static_cast<float>(count)));
        std::vector<const std::byte*> others;
        for (const T& operand : operands) others.push_back(reinterpret_cast<const std::byte*>(&operand));
        T once = narrow<T>(1.0f);
        T per_hop = once;
        auto sources = others;
        sources.insert(sources.begin(), reinterpret_cast<const std::byte*>(&once));
        combine_many(Op::sum, dtype, reinterpret_cast<std::byte*>(&once), sources, 1);
        for (const std::byte* other : others)
            combine(Op::sum, dtype, reinterpret_cast<std::byte*>(&per_hop), other, 1, false);
        expect(widen(once) == 1.0f + distance, "one rounding of the whole sum");
        expect(widen(per_hop) == 1.0f, "a rounding after each operand to lose them");
    }
}

template <class T>
void check_scale_and_divide(const Kernels& kernels, Dtype dtype, std::size_t elements, std::int64_t by,
                            std::mt19937_64& random) {
    Array<T> values(elements, random() % 16);
    oracle::fill(values, elements, random);
    Array<T> divided = values;
    kernels.divide(dtype, divided.data(), elements, by);
    for (std::size_t i = 0; i < elements; ++i) {
        const T before = values.get(i);
        if constexpr (HalfPrecision<T>) {
            expect(oracle::same(divided.get(i), narrow<T>(widen(before) / static_cast<float>(by))),
                   "a quotient");
        } else if constexpr (Floating<T>) {
            expect(oracle::same(divided.get(i), before / static_cast<T>(by)), "a quotient");
        } else {
            __extension__ using Exact = __int128;
            expect(divided.get(i) == static_cast<T>(static_cast<Exact>(before) / by), "a truncated quotient");
        }
    }
    if constexpr (Floating<T>) {
        Array<T> scaled = values;
        kernels.scale(dtype, scaled.data(), elements, 0.3);
        for (std::size_t i = 0; i < elements; ++i) {
            if constexpr (HalfPrecision<T>)
                expect(oracle::same(scaled.get(i), narrow<T>(widen(values.get(i)) * 0.3f)), "a product");
            else
                expect(oracle::same(scaled.get(i), values.get(i) * static_cast<T>(0.3)), "a product");
        }
    }
}

void test_scale_and_divide_agree_with_the_oracle(const Kernels& kernels) {
    std::mt19937_64 random(4);
    for (const Dtype dtype : oracle::dtypes)
        with_type(dtype, [&]<class T>() {
            if constexpr (!std::same_as<T, Boolean>)
                for (const std::size_t elements : lengths())
                    for (const std::int64_t by : {1l, 2l, 3l, 7l, 127l, 300l, 70000l, 1l << 40, INT64_MAX})
                        check_scale_and_divide<T>(kernels, dtype, elements, by, random);
        });
}

void expect_refusal(const std::function<void()>& call, const char* claim) {
    try {
        call();
    } catch (const std::invalid_argument&) {
        return;
    }
    expect(false, claim);
}

void test_what_is_not_defined_is_refused() {
    std::byte bytes[8] = {};
    const std::vector<const std::byte*> twice(2, bytes);
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16})
        for (const Op op : {Op::bit_and, Op::bit_or, Op::bit_xor}) {
            expect(!supports(op, dtype), "no bits of floats");
            expect_refusal([&] { combine(op, dtype, bytes, bytes, 1, false); },
                           "combine to refuse bits of floats");
            expect_refusal([&] { combine_many(op, dtype, bytes, twice, 1); },
                           "combine_many to refuse bits of floats");
        }
    for (const Op op : oracle::ops)
        for (const Dtype dtype : {Dtype::i8, Dtype::u64, Dtype::boolean})
            expect(supports(op, dtype), "every reduction of integers and booleans");
    expect_refusal([&] { scale(Dtype::i32, bytes, 1, 0.5); }, "scale to refuse integers");
    expect_refusal([&] { divide(Dtype::boolean, bytes, 1, 2); }, "divide to refuse booleans");
    expect_refusal([&] { divide(Dtype::i32, bytes, 1, 0); }, "divide to refuse zero");
    expect_refusal([&] { divide(Dtype::f32, bytes, 1, -2); }, "divide to refuse negative numbers");
    expect_refusal([&] { combine(static_cast<Op>(99), Dtype::i8, bytes, bytes, 1, false); },
                   "an unknown reduction");
    expect_refusal([&] { combine(Op::sum, static_cast<Dtype>(99), bytes, bytes, 1, false); },
                   "an unknown dtype");
}

}  // namespace

int main() {
    for (const Kernels& kernels : supported_kernels()) {
        test_combine_agrees_with_the_oracle(kernels);
        test_combine_takes_the_same_array_twice(kernels);
        test_combine_many_agrees_with_the_oracle(kernels);
        test_scale_and_divide_agree_with_the_oracle(kernels);
    }
    test_combine_many_rounds_once<Half>(Dtype::f16, 0x1p-10f);
    test_combine_many_rounds_once<BFloat>(Dtype::bf16, 0x1p-7f);
    test_what_is_not_defined_is_refused();
}
