#pragma once

#include <cstdint>
#include <vector>

namespace unisono {

class Program;

/// Slots that need not hold a whole block: a fold takes what has been received out of them, and so there is
/// room again. They stay in the cache, however large the blocks are.
///
/// A receive that waits for its fold waits for the receives of other peers. That ends, because of a program's
/// order of rounds: what a fold waits for is the first block of messages of its own round, or earlier than
/// that round. So nothing that a peer has to send before those blocks waits for this round.
struct Windows {
    Windows() = default;
    explicit Windows(const Program& program);

    std::vector<std::int32_t> fold_of_slot;  // that empties it; -1 if it is none
    std::vector<std::int32_t> fold_behind;   // by instruction: that empties the window that it fills; -1
};

}  // namespace unisono
