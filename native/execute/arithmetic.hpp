#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "reduce/reduce.hpp"

namespace unisono {

/// What a call computes: operands are multiplied by a factor first, and the result is divided in the end.
struct Arithmetic {
    Dtype dtype;
    Op op;
    double factor = 1;
    std::int64_t divisor = 1;
};

}  // namespace unisono
