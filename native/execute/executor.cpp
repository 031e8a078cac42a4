#include "execute/executor.hpp"

#include "base/error.hpp"
#include "execute/run.hpp"

namespace unisono {

Executor::Executor(int rank, std::vector<std::unique_ptr<Link>> links, std::vector<Life> lives,
                   bool more_ranks_than_cores, Neighbours neighbours)
    : rank_(rank),
      links_(std::move(links)),
      lives_(std::move(lives)),
      more_ranks_than_cores_(more_ranks_than_cores),
      neighbours_(std::move(neighbours)) {
    counters_.sent.resize(links_.size());
    counters_.received.resize(links_.size());
    sent_in_pairs_.resize(links_.size());
    received_in_pairs_.resize(links_.size());
}

Executor::~Executor() = default;

void Executor::run(const Program& program, const Call& call, const std::function<void()>& interrupt) {
    require_whole();
    try {
        Run(*this, program, call).go(interrupt);
    } catch (...) {
        fail();
        throw;
    }
    ++counters_.calls;
    if (!call.pairwise) {
        ++sequence_;
        return;
    }
    for (const auto& traffic : program.traffic()) {
        const auto peer = static_cast<std::size_t>(traffic.peer);
        sent_in_pairs_[peer] += traffic.sends.empty() ? 0 : 1;
        received_in_pairs_[peer] += traffic.receives.empty() ? 0 : 1;
    }
}

void Executor::run(const SharedPlan& plan, SharedRun::Array in, SharedRun::Array out,
                   Clock::time_point deadline, const std::function<void()>& interrupt) {
    require_whole();
    Watch watch(rank_, lives_, deadline, interrupt);
    try {
        SharedRun(neighbours_, rank_, plan, in, out, {counters_.sent, counters_.received}, patience(), watch)
            .go();
    } catch (...) {
        fail();
        throw;
    }
    ++counters_.calls;
}

void Executor::require_whole() const {
    if (broken_) throw PeerLost("an earlier call failed, so this communicator is closed");
}

void Executor::fail() {
    broken_ = true;
    if (neighbours_.own) neighbours_.own->board().failed.store(1, std::memory_order_relaxed);
}

}  // namespace unisono
