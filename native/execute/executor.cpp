#include "execute/executor.hpp"

#include <cstring>

#include "base/error.hpp"
#include "execute/fence.hpp"
#include "execute/run.hpp"
#include "execute/shared_run.hpp"

namespace unisono {

Executor::Executor(int rank, std::vector<std::unique_ptr<Link>> links, Host host)
    : rank_(rank),
      links_(std::move(links)),
      host_(std::move(host)),
      counters_(links_.size()),
      recorder_(std::make_shared<Recorder>(size())),
      sent_in_pairs_(links_.size()),
      received_in_pairs_(links_.size()) {}

Executor::~Executor() { leave(); }

void Executor::run(const LinkPlan& plan, const Request& request, const std::function<void()>& interrupt) {
    const auto sequence = plan.pairwise ? Recorder::no_sequence : sequence_;
    run(plan.arithmetic, request, sequence,
        [&](const Request& ready) { Run(*this, plan, ready).go(stoppable(interrupt)); });
    if (!plan.pairwise) {
        ++sequence_;
        return;
    }
    for (const auto& traffic : plan.program->traffic()) {
        const auto peer = static_cast<std::size_t>(traffic.peer);
        sent_in_pairs_[peer] += traffic.sends.empty() ? 0 : 1;
        received_in_pairs_[peer] += traffic.receives.empty() ? 0 : 1;
    }
}

void Executor::run(const SharedPlan& plan, const Request& request, const std::function<void()>& interrupt) {
    run(plan.arithmetic, request, sequence_, [&](const Request& ready) {
        const auto interrupted = stoppable(interrupt);
        Watch watch(rank_, host_, ready.deadline, interrupted);
        SharedRun(host_.neighbours, rank_, plan, ready, {counters_.sent, counters_.received},
                  {patience(ready), watch, *recorder_})
            .go();
    });
    ++sequence_;
}

template <class Go>
void Executor::run(const Arithmetic& arithmetic, Request request, std::uint64_t sequence, Go go) {
    origin_.require("this communicator");
    if (broken_) throw PeerLost("an earlier call failed, so this communicator is closed");
    Recording recording(*recorder_, request.label, sequence);
    if (arithmetic.factor != 1) request.in = premultiplied(arithmetic, request.in);
    try {
        go(request);
    } catch (...) {
        fail();
        throw;
    }
    if (arithmetic.divisor != 1)
        divide(arithmetic.dtype, request.out.address, request.out.size / size_of(arithmetic.dtype),
               arithmetic.divisor);
    recording.succeed();
    ++counters_.calls;
}

std::function<void()> Executor::stoppable(const std::function<void()>& interrupt) const {
    return [this, &interrupt] {
        interrupt();
        origin_.require("this call");  // a signal handler may fork in the middle of it
        require_going_on();
    };
}

void Executor::require_going_on() const {
    if (stopped_.load(std::memory_order_relaxed))
        throw PeerLost("rank " + std::to_string(rank_) + " has given its communicator up in a call");
}

Array Executor::premultiplied(const Arithmetic& arithmetic, Array in) {
    if (premultiplied_.size() < in.size) premultiplied_.resize(in.size);
    if (in.size > 0) std::memcpy(premultiplied_.data(), in.address, in.size);
    scale(arithmetic.dtype, premultiplied_.data(), in.size / size_of(arithmetic.dtype), arithmetic.factor);
    return {premultiplied_.data(), in.size};
}

void Executor::fail() {
    broken_ = true;
    if (!host_.own || !origin_.is_here()) return;
    host_.own->board().failed.store(1, std::memory_order_seq_cst);  // see WriteWindow
    fence(host_, rank_);
}

void Executor::leave() {
    if (host_.own && origin_.is_here()) host_.own->board().left.store(1, std::memory_order_release);
}

}  // namespace unisono
