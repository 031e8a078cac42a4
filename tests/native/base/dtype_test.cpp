#include "base/dtype.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "expect.hpp"

namespace {

using namespace unisono;

/// From the definition of the format, by arithmetic on doubles, which hold every half exactly.
double value_of(std::uint16_t bits, int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return fraction ? std::numeric_limits<double>::quiet_NaN()
                        : sign * std::numeric_limits<double>::infinity();
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
    return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

double value_of(Half half) { return value_of(half.bits, 5, 10); }
double value_of(BFloat value) { return value_of(value.bits, 8, 7); }

bool same(double a, double b) {
    return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

template <class T>
void test_every_half_widens_to_its_value_and_comes_back() {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const T half{static_cast<std::uint16_t>(bits)};
        const float wide = widen(half);
        expect(same(wide, value_of(half)), "the value that the format defines");
        const T back = narrow<T>(wide);
        if (std::isnan(wide))
            expect(std::isnan(value_of(back)) && back.bits >> 15 == half.bits >> 15, "a NaN to stay one");
        else
            expect(back.bits == half.bits, "the same bits after a round trip");
    }
}

/// Between each two neighbours: just below the middle, the middle, and just above.
template <class T>
void test_narrowing_rounds_to_the_nearest_and_ties_to_even(std::uint16_t infinity, double next_power) {
    for (std::uint16_t bits = 0; bits < infinity; ++bits) {
        const T low{bits};
        const T high{static_cast<std::uint16_t>(bits + 1)};
        // IEEE rounds overflow as if the exponent went on.
        const double above = high.bits == infinity ? next_power : value_of(high);
        const auto middle = static_cast<float>((value_of(low) + above) / 2);
        const float just_below = std::nextafter(middle, 0.0f);
        const float just_above = std::nextafter(middle, std::numeric_limits<float>::infinity());
        const T even = bits % 2 == 0 ? low : high;
        for (const int sign : {0, 0x8000}) {
            const auto check = [&](float value, T expected) {
                const T result = narrow<T>(sign ? -value : value);
                expect(result.bits == (expected.bits | sign), "the nearest half");
            };
            check(middle, even);
            check(just_below, low);
            check(just_above, high);
        }
    }
}

template <class T>
void test_narrowing_keeps_infinities_and_nans(std::uint16_t infinity) {
    const auto narrowed = [](std::uint32_t bits) { return narrow<T>(std::bit_cast<float>(bits)).bits; };
    expect(narrowed(0x7f800000u) == infinity, "infinity");
    expect(narrowed(0xff800000u) == (infinity | 0x8000), "minus infinity");
    // Signalling or quiet, with payloads in the bits that stay, in those that go, and in all.
    for (const std::uint32_t payload :
         {1u, 0x1fffu, 0x2000u, 0xffffu, 0x10000u, 0x3fffffu, 0x400000u, 0x7fffffu})
        for (const std::uint32_t sign : {0u, 0x80000000u}) {
            const std::uint16_t result = narrowed(sign | 0x7f800000u | payload);
            expect((result & 0x7fff) > infinity, "a NaN");
            expect(result >> 15 == static_cast<int>(sign >> 31), "the sign of the NaN");
        }
}

void test_with_type_size_and_name_agree() {
    const auto is = [](Dtype dtype, std::size_t size, const char* name) {
        expect(size_of(dtype) == size, "the size of an element");
        expect(std::strcmp(name_of(dtype), name) == 0, name);
    };
    is(Dtype::f64, 8, "float64");
    is(Dtype::f32, 4, "float32");
    is(Dtype::f16, 2, "float16");
    is(Dtype::bf16, 2, "bfloat16");
    is(Dtype::i8, 1, "int8");
    is(Dtype::i16, 2, "int16");
    is(Dtype::i32, 4, "int32");
    is(Dtype::i64, 8, "int64");
    is(Dtype::u8, 1, "uint8");
    is(Dtype::u16, 2, "uint16");
    is(Dtype::u32, 4, "uint32");
    is(Dtype::u64, 8, "uint64");
    is(Dtype::boolean, 1, "bool");
}

void test_an_unknown_dtype_is_refused() {
    try {
        size_of(static_cast<Dtype>(200));
    } catch (const std::invalid_argument&) {
        return;
    }
    expect(false, "an exception");
}

}  // namespace

int main() {
    test_every_half_widens_to_its_value_and_comes_back<Half>();
    test_every_half_widens_to_its_value_and_comes_back<BFloat>();
    test_narrowing_rounds_to_the_nearest_and_ties_to_even<Half>(0x7c00, 0x1p16);
    test_narrowing_rounds_to_the_nearest_and_ties_to_even<BFloat>(0x7f80, 0x1p128);
    test_narrowing_keeps_infinities_and_nans<Half>(0x7c00);
    test_narrowing_keeps_infinities_and_nans<BFloat>(0x7f80);
    test_with_type_size_and_name_agree();
    test_an_unknown_dtype_is_refused();
}
