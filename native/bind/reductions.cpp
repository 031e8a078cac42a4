#include <nanobind/nanobind.h>

#include <stdexcept>

#include "bind/bind.hpp"
#include "reduce/reduce.hpp"

namespace nb = nanobind;

namespace unisono::bind {

void reductions(nb::module_& module) {
    module.def(
        "supports",
        [](int op, int dtype) { return supports(static_cast<Op>(op), static_cast<Dtype>(dtype)); },
        nb::arg("op"), nb::arg("dtype"), "Is the operator defined for elements of this type?");
    module.def(
        "divide",
        [](std::uintptr_t address, std::size_t elements, int dtype, std::int64_t by) {
            divide(static_cast<Dtype>(dtype), reinterpret_cast<std::byte*>(address), elements, by);
        },
        nb::arg("address"), nb::arg("elements"), nb::arg("dtype"), nb::arg("by"),
        "Divides every element at an address, integers rounding towards zero.");
    module.def(
        "scale",
        [](std::uintptr_t address, std::size_t elements, int dtype, double factor) {
            scale(static_cast<Dtype>(dtype), reinterpret_cast<std::byte*>(address), elements, factor);
        },
        nb::arg("address"), nb::arg("elements"), nb::arg("dtype"), nb::arg("factor"),
        "Multiplies every floating-point element at an address.");
}

}  // namespace unisono::bind
