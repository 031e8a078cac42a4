#pragma once

#include <fcntl.h>

#include <memory>

#include "base/error.hpp"
#include "base/fd.hpp"

namespace unisono::bind {

/// What Python objects have of ours. Not the pointers that nanobind would make of the objects themselves:
/// their last copy may go in a thread of ours, where no interpreter is needed to let go of these.
template <class T>
struct Held {
    std::shared_ptr<T> value;
};

/// A descriptor of Python's, which keeps its own.
inline Fd duplicate(int descriptor) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw_errno("cannot duplicate a descriptor");
    return Fd(copy);
}

}  // namespace unisono::bind
