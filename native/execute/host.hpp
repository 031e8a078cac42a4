#pragma once

#include <memory>
#include <vector>

#include "base/fd.hpp"
#include "execute/neighbours.hpp"
#include "transport/shm/inbox.hpp"

namespace unisono {

/// A process of this host, the rank that it is, and its inbox, if there is one.
struct Life {
    int rank;
    Fd process;
    std::shared_ptr<Inbox> inbox;
};

/// What a rank knows of its host.
struct Host {
    std::shared_ptr<Inbox> own;
    /// Of the other ranks here: memory does not tell when the process that wrote to it dies.
    std::vector<Life> lives = {};
    Neighbours neighbours = {};  // all ranks, if they share memory, otherwise none
    bool more_ranks_than_cores = false;
};

}  // namespace unisono
