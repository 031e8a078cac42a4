#include "execute/executor.hpp"

#include "base/error.hpp"
#include "execute/run.hpp"

namespace unisono {

Executor::Executor(int rank, std::vector<std::unique_ptr<Link>> links, std::vector<Life> lives,
                   bool more_ranks_than_cores)
    : rank_(rank),
      links_(std::move(links)),
      lives_(std::move(lives)),
      more_ranks_than_cores_(more_ranks_than_cores),
      recorder_(std::make_shared<Recorder>(size())) {
    counters_.sent.resize(links_.size());
    counters_.received.resize(links_.size());
    sent_in_pairs_.resize(links_.size());
    received_in_pairs_.resize(links_.size());
}

Executor::~Executor() = default;

void Executor::run(const Program& program, const Call& call, const std::function<void()>& interrupt) {
    if (broken_) throw PeerLost("an earlier call failed, so this communicator is closed");
    Recording recording(*recorder_, call.label, call.pairwise ? Recorder::no_sequence : sequence_);
    broken_ = true;  // unless we get through
    Run(*this, program, call).go(interrupt);
    broken_ = false;
    recording.succeed();
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

}  // namespace unisono
