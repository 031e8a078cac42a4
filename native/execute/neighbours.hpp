#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "execute/trials.hpp"
#include "transport/shm/inbox.hpp"

namespace unisono {

/// A rank of this host, and what this rank knows of it.
struct Neighbour {
    std::shared_ptr<Inbox> inbox;  // nothing for the rank itself
    pid_t process = 0;             // as this process knows it; 0 if it does not
    std::uint64_t known = 0;       // the latest moment that was seen on its board
};

/// Where a block's bytes are: in this process, or at an address of another one.
struct Access {
    // For emplace_back: a list in braces would be made elsewhere and copied.
    Access(int of, std::byte* here, std::uint64_t there, pid_t owner, bool callers, bool staged)
        : rank(of), pointer(here), address(there), process(owner), is_callers(callers), is_staged(staged) {}

    int rank;
    std::byte* pointer;
    std::uint64_t address;  // in `process`, if there is no pointer
    pid_t process;
    bool is_callers;  // an array of another rank's caller, not that rank's stage
    bool is_staged;   // in the stage of some rank
};

/// Memory that a call needs for a while, kept for the next one.
struct Scratch {
    std::vector<Access> accesses;
    std::vector<const std::byte*> operands;
    std::vector<std::unique_ptr<std::byte[]>> buffers;
};

/// A call that a rank has made, to be compared with what others say of theirs.
struct MadeCall {
    std::uint64_t number = 0;    // of the calls of ranks that share memory
    std::uint64_t sequence = 0;  // of the calls of all ranks
    std::uint64_t fingerprint = 0;
};

/// A call whose way is on trial; the ranks tell on their boards what they had to do in it.
struct Tried {
    std::uint64_t call;
    Way way;
    std::shared_ptr<Trials> trials;
};

/// All ranks of a communicator, if they share memory, by rank.
struct Neighbours {
    std::shared_ptr<Inbox> own;
    std::vector<Neighbour> ranks;
    bool share_cores = false;
    std::uint64_t call = 0;
    MadeCall before;
    Scratch scratch;
    std::vector<Tried> tried;  // and not judged yet: a few of the last calls
    std::uint64_t era = 0;     // they have begun again so often

    bool can_be_direct() const {
        for (const auto& each : ranks)
            if (each.inbox && (each.process == 0 || !each.inbox->owner_is_readable(each.process)))
                return false;
        return true;
    }
};

}  // namespace unisono
