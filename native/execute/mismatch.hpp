#pragma once

#include <stdexcept>

namespace unisono {

/// The peers are in another call, or in the same one with other arguments.
struct Mismatch : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace unisono
