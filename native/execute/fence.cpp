#include "execute/fence.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "base/clock.hpp"

namespace unisono {

namespace {

/// A window lasts for one piece of a block; a process that has it open for longer does not run.
constexpr auto longest_window = std::chrono::seconds(2);
constexpr int milliseconds_to_end = 5000;

bool writes_to(const Life& life, int rank) {
    // Sequentially consistent, after the store to `failed`: see WriteWindow.
    return life.inbox &&
           (life.inbox->board().writing_to.load(std::memory_order_seq_cst) & WriteWindow::flag(rank)) != 0;
}

bool has_ended(const Life& life, int milliseconds) {
    pollfd end{life.process.number(), POLLIN, 0};
    return ::poll(&end, 1, milliseconds) > 0;
}

}  // namespace

void fence(const Host& host, int rank) {
    const auto until = Clock::now() + longest_window;
    for (const auto& life : host.lives) {
        while (writes_to(life, rank) && Clock::now() < until && !has_ended(life, 0)) ::sched_yield();
        if (!writes_to(life, rank) || has_ended(life, 0)) continue;
        ::syscall(SYS_pidfd_send_signal, life.process.number(), SIGKILL, nullptr, 0);
        has_ended(life, milliseconds_to_end);
    }
}

}  // namespace unisono
