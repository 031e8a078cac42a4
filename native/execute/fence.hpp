#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "execute/host.hpp"
#include "execute/neighbours.hpp"
#include "transport/shm/board.hpp"

namespace unisono {

/// A rank writes into the arrays of others only in here. The writer raises its flags and then looks whether
/// an owner has left the call; the owner says that it has left, and then waits until no flag is up (`fence`).
/// All four are sequentially consistent, so one of them sees the other.
class WriteWindow {
  public:
    /// Each of 64 ranks has its own. Of more, some share one, and wait for who writes to the other, too.
    static std::uint64_t flag(int rank) { return std::uint64_t{1} << rank % 64; }

    WriteWindow(int rank, const Neighbours& neighbours, std::span<const Access> targets)
        : board_(neighbours.own->board()) {
        for (const auto& target : targets)
            if (target.is_callers) flags_ |= flag(target.rank);
        if (flags_ == 0) return;
        board_.writing_to.store(flags_, std::memory_order_seq_cst);
        for (const auto& target : targets)
            if (target.is_callers && has_left(neighbours, target.rank)) {
                close();
                throw PeerLost::given_up(rank, target.rank);
            }
    }
    WriteWindow(const WriteWindow&) = delete;
    WriteWindow& operator=(const WriteWindow&) = delete;
    ~WriteWindow() { close(); }

  private:
    static bool has_left(const Neighbours& neighbours, int owner) {
        const auto& inbox = neighbours.ranks[static_cast<std::size_t>(owner)].inbox;
        return inbox->board().failed.load(std::memory_order_seq_cst) != 0;
    }
    // Releases what was written to the owners, who wait for this.
    void close() {
        if (flags_ != 0) board_.writing_to.store(0, std::memory_order_release);
    }

    Board& board_;
    std::uint64_t flags_ = 0;
};

/// Before this rank gives its arrays back after a failure: nobody writes into them any more. A process that
/// was stopped while it wrote would go on when it is continued, so it is ended; it is lost to the others
/// anyway.
void fence(const Host& host, int rank);

}  // namespace unisono
