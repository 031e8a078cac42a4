#pragma once

#include <atomic>

#include "base/error.hpp"
#include "execute/host.hpp"
#include "transport/shm/board.hpp"

namespace unisono {

/// A rank writes into the array of another one only in here. The writer raises its flag and then looks
/// whether the owner has left the call; the owner says that it has left, and then waits until no flag is up
/// (`fence`). All four are sequentially consistent, so one of them sees the other.
class WriteWindow {
  public:
    WriteWindow(int rank, Board& own, const Board& owner, int owner_rank) : own_(own) {
        own.writing_to.store(owner_rank + 1, std::memory_order_seq_cst);
        if (owner.failed.load(std::memory_order_seq_cst) == 0) return;
        own.writing_to.store(0, std::memory_order_release);
        throw PeerLost::given_up(rank, owner_rank);
    }
    WriteWindow(const WriteWindow&) = delete;
    WriteWindow& operator=(const WriteWindow&) = delete;
    // Releases what was written to the owner, who waits for this.
    ~WriteWindow() { own_.writing_to.store(0, std::memory_order_release); }

  private:
    Board& own_;
};

/// Before this rank gives its arrays back after a failure: nobody writes into them any more. A process that
/// was stopped while it wrote would go on when it is continued, so it is ended; it is lost to the others
/// anyway.
void fence(const Host& host, int rank);

}  // namespace unisono
