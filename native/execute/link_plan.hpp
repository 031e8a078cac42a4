#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "execute/arithmetic.hpp"
#include "execute/program.hpp"

namespace unisono {

/// A program for links, for blocks of certain sizes and elements of a certain type: all that calls of one
/// kind have in common. Sizes and offsets are in bytes, one of each per block.
struct LinkPlan {
    std::shared_ptr<const Program> program;
    std::vector<std::uint64_t> sizes;
    std::vector<std::uint64_t> in_offsets;
    std::vector<std::uint64_t> out_offsets;
    Arithmetic arithmetic;
    std::uint64_t fingerprint;  // of everything that all ranks have to agree on
    bool pairwise;              // a call of sender and receiver only, which the others know nothing of

    /// std::invalid_argument if the parts do not fit each other.
    void check() const;
};

}  // namespace unisono
