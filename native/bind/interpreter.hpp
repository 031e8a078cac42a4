#pragma once

#include <nanobind/nanobind.h>

#include <chrono>

#include "execute/watch.hpp"

namespace unisono::bind {

inline Clock::time_point after(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Lets Python handle signals; without the interpreter's lock.
inline void check_signals() {
    const nanobind::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

}  // namespace unisono::bind
