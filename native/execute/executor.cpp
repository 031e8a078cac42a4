#include "execute/executor.hpp"

#include "base/error.hpp"
#include "execute/run.hpp"

namespace unisono {

Executor::Executor(int rank, std::vector<std::unique_ptr<Link>> links, Host host)
    : rank_(rank),
      links_(std::move(links)),
      host_(std::move(host)),
      recorder_(std::make_shared<Recorder>(size())) {
    counters_.sent.resize(links_.size());
    counters_.received.resize(links_.size());
    sent_in_pairs_.resize(links_.size());
    received_in_pairs_.resize(links_.size());
}

Executor::~Executor() { leave(); }

void Executor::run(const Program& program, const Call& call, const std::function<void()>& interrupt) {
    require_whole();
    Recording recording(*recorder_, call.label, call.pairwise ? Recorder::no_sequence : sequence_);
    try {
        Run(*this, program, call).go(interrupt);
    } catch (...) {
        fail();
        throw;
    }
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

void Executor::run(const SharedPlan& plan, SharedRun::Array in, SharedRun::Array out,
                   Clock::time_point deadline, const Label& label, const std::function<void()>& interrupt) {
    require_whole();
    Recording recording(*recorder_, label, sequence_);
    Watch watch(rank_, host_, deadline, interrupt);
    try {
        SharedRun(host_.neighbours, rank_, plan, in, out, {counters_.sent, counters_.received},
                  {patience(), watch, *recorder_})
            .go();
    } catch (...) {
        fail();
        throw;
    }
    recording.succeed();
    ++counters_.calls;
    ++sequence_;
}

void Executor::require_whole() const {
    if (broken_) throw PeerLost("an earlier call failed, so this communicator is closed");
}

void Executor::fail() {
    broken_ = true;
    if (host_.own) host_.own->board().failed.store(1, std::memory_order_release);
}

void Executor::leave() {
    if (host_.own) host_.own->board().left.store(1, std::memory_order_release);
}

}  // namespace unisono
