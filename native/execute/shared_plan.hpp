#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "execute/arithmetic.hpp"
#include "execute/shared_program.hpp"
#include "execute/trials.hpp"

namespace unisono {

/// A program for blocks of certain sizes and elements of a certain type: all that calls of one kind have in
/// common. Sizes and offsets are in bytes.
struct SharedPlan {
    std::shared_ptr<const SharedProgram> program;
    std::vector<std::uint64_t> sizes;    // of the blocks
    std::vector<std::uint64_t> offsets;  // of the places, in their owners' arrays
    std::vector<std::uint64_t> staged;   // of the places, in their owners' stages
    std::uint64_t window;                // as much of each block is worked on at a time
    std::uint64_t windows;
    std::uint64_t stage_step;   // bytes of a stage that a call uses, the same for all ranks
    std::uint64_t stage_turns;  // windows take so many places of a stage, in turn: see stage_offset
    bool tiny;                  // all stages fit on the boards' lines
    bool may_stage;             // arrays that are not shared are copied to the stage
    Arithmetic arithmetic;
    std::uint64_t fingerprint;  // of everything that all ranks have to agree on
    /// What is combined of several are the inputs of all ranks, on all ranks: so it is divided then and
    /// there, while it is in the cache, by one rank for all.
    bool sums_at_once = false;
    std::shared_ptr<Trials> trials{};  // of the ways that calls may go; nothing if they go one way

    /// Where in its stage a window of a call works. Memory that was not used for a while is no longer in the
    /// cache of the core that read it last: to write there takes half the time.
    std::uint64_t stage_offset(std::uint64_t call, std::uint64_t number) const {
        return (call / 2 * windows + number) % stage_turns * stage_step;
    }

    /// std::invalid_argument if the parts do not fit each other, or a stage of this size.
    void check(std::size_t stage_bytes) const;
};

}  // namespace unisono
