#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <pthread.h>

#include "base/build.hpp"
#include "bind/bind.hpp"
#include "bind/interpreter.hpp"

namespace nb = nanobind;

NB_MODULE(_native, module) {
    module.doc() = "The part of unisono that moves bytes.";
    ::pthread_atfork(nullptr, nullptr, [] {
        unisono::bind::WithoutInterpreter::forget_threads();
        nb::set_leak_warnings(false);  // what threads had at the fork is never let go of in the child
    });
    module.def(
        "expect_leaks", [] { nb::set_leak_warnings(false); },
        "Says nothing at the end about objects that threads still have.");
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
    unisono::bind::other_process(module);
    unisono::bind::executor(module);
    unisono::bind::shortcuts(module);
    unisono::bind::method(module);
    unisono::bind::engine(module);
    unisono::bind::simulate(module);
    unisono::bind::server(module);
    unisono::bind::server_client(module);
}
