#include "reduce/reduce.hpp"

#include <stdexcept>
#include <string>

#include "reduce/kernels.hpp"

namespace unisono {
namespace {

const Kernels& fastest_kernels() {
    static const Kernels fastest = supported_kernels().front();
    return fastest;
}

bool is_floating(Dtype dtype) {
    return with_type(dtype, []<class T>() { return Floating<T>; });
}

void check(bool possible, const char* what, Dtype dtype) {
    if (!possible) throw std::invalid_argument(std::string(what) + " is not possible for " + name_of(dtype));
}

}  // namespace

bool supports(Op op, Dtype dtype) { return !(is_bitwise(op) && is_floating(dtype)); }

void combine(Op op, Dtype dtype, std::byte* into, const std::byte* other, std::size_t elements,
             bool other_first) {
    check(supports(op, dtype), "a reduction of bits", dtype);
    fastest_kernels().combine(op, dtype, into, other, elements, other_first);
}

void combine_many(Op op, Dtype dtype, std::byte* into, std::span<const std::byte* const> sources,
                  std::size_t elements) {
    check(supports(op, dtype), "a reduction of bits", dtype);
    if (sources.size() < 2) throw std::invalid_argument("a reduction has two or more operands");
    fastest_kernels().combine_many(op, dtype, into, sources, elements);
}

void scale(Dtype dtype, std::byte* values, std::size_t elements, double factor) {
    check(is_floating(dtype), "multiplication by a real number", dtype);
    fastest_kernels().scale(dtype, values, elements, factor);
}

void divide(Dtype dtype, std::byte* values, std::size_t elements, std::int64_t by) {
    check(dtype != Dtype::boolean, "a division", dtype);
    if (by <= 0) throw std::invalid_argument("a divisor has to be positive, not " + std::to_string(by));
    fastest_kernels().divide(dtype, values, elements, by);
}

}  // namespace unisono
