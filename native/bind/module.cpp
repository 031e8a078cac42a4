#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/build.hpp"
#include "bind/bind.hpp"

namespace nb = nanobind;

NB_MODULE(_native, module) {
    module.doc() = "The part of unisono that moves bytes.";

    module.def(
        "build_info",
        [] {
            const auto info = unisono::build_info();
            nb::dict result;
            result["version"] = info.version;
            result["compiler"] = info.compiler;
            result["cxx_standard"] = info.cxx_standard;
            result["architecture"] = info.architecture;
            result["vector_instructions"] = info.vector_instructions;
            return result;
        },
        nb::sig("def build_info() -> dict[str, str | int | list[str]]"),
        "What the native module was built from, and what it found to run on.");

    unisono::bind::errors(module);
    unisono::bind::reductions(module);
    unisono::bind::recorder(module);
    unisono::bind::plans(module);
    unisono::bind::calls(module);
    unisono::bind::executor(module);
}
