#include "execute/executor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/error.hpp"
#include "execute/fence.hpp"
#include "execute/run.hpp"
#include "execute/shared_run.hpp"

namespace unisono {

namespace {

/// To move so many takes less time than to hand the interpreter over.
constexpr std::size_t few_bytes = 64 * 1024;

template <class Run, class Go>
void telling_the_round(const Run& run, std::int32_t rounds, Go go) {
    try {
        go();
    } catch (CallFailed& failed) {
        failed.round = run.round() + 1;
        failed.rounds = rounds;
        throw;
    }
}

}  // namespace

/// A caller whose call this rank may have to leave for reasons of its own.
class Executor::Stoppable final : public Caller {
  public:
    Stoppable(const Executor& executor, Caller& caller) : executor_(executor), caller_(caller) {}

    void takes_a_while() override { caller_.takes_a_while(); }
    void look_up() override {
        caller_.look_up();
        executor_.origin_.require("this call");  // a signal handler may fork in the middle of it
        executor_.require_going_on();
    }

  private:
    const Executor& executor_;
    Caller& caller_;
};

Executor::Executor(int rank, std::vector<std::unique_ptr<Link>> links, Host host)
    : rank_(rank),
      links_(std::make_move_iterator(links.begin()), std::make_move_iterator(links.end())),
      host_(std::move(host)),
      counters_(links_.size()),
      recorder_(std::make_shared<Recorder>(size())) {
    host_.neighbours.share_cores = host_.more_ranks_than_cores;
}

Executor::~Executor() { leave(); }

void Executor::run(const LinkPlan& plan, const Request& request, Caller& caller) {
    const auto sequence = plan.pairwise ? Recorder::no_sequence : sequence_;
    run(plan.arithmetic, request, sequence, [&](const Request& ready) {
        caller.takes_a_while();
        Stoppable stoppable(*this, caller);
        Run run(*this, plan, ready);
        telling_the_round(run, plan.program->rounds().count, [&] { run.go(stoppable); });
    });
    if (!plan.pairwise) {
        ++sequence_;
        return;
    }
    for (const auto& traffic : plan.program->traffic()) {
        if (!traffic.sends.empty()) recorder_->sent_to(traffic.peer);
        if (!traffic.receives.empty()) recorder_->received_from(traffic.peer);
    }
}

void Executor::run(const SharedPlan& plan, const Request& request, Caller& caller) {
    auto arithmetic = plan.arithmetic;
    if (plan.sums_at_once) arithmetic.divisor = 1;
    run(arithmetic, request, sequence_, [&](const Request& ready) {
        if (ready.in.size + ready.out.size > few_bytes) caller.takes_a_while();
        Stoppable stoppable(*this, caller);
        Watch watch(rank_, host_, watched(ready, false), stoppable);
        SharedRun run(host_.neighbours, rank_, plan, ready,
                      {counters_.instructions, counters_.sent, counters_.received},
                      {patience_at_boards(ready, plan.program->waits_for_one()), watch, *recorder_});
        telling_the_round(run, plan.program->rounds().count, [&] { run.go(rehearsal()); });
    });
    ++sequence_;
}

template <class Go>
void Executor::run(const Arithmetic& arithmetic, Request request, std::uint64_t sequence, Go go) {
    origin_.require("this communicator");
    if (broken_) throw_broken();
    const auto now = request.in_background ? quick_now() : request.made;
    Recording recording(*recorder_, request.label, sequence, now);
    const auto next_in_memory = host_.neighbours.call + 1;
    if (arithmetic.factor != 1) request.in = premultiplied(arithmetic, request.in);
    try {
        go(request);
    } catch (...) {
        fail(next_in_memory);
        throw;
    }
    if (arithmetic.divisor != 1)
        divide(arithmetic.dtype, request.out.address, request.out.size / size_of(arithmetic.dtype),
               arithmetic.divisor);
    recording.succeed();
    add(counters_.calls, 1);
}

Watch::Call Executor::watched(const Request& request, bool pairwise) const {
    return {sequence_, pairwise ? Turn::of_two(sequence_) : Turn::of_all(sequence_), recorder_->began(),
            request.deadline, failed_};
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

void Executor::fail(std::uint64_t next_in_memory) {
    broken_ = true;
    if (!host_.own || !origin_.is_here()) return;
    host_.own->board().failed.store(next_in_memory, std::memory_order_seq_cst);  // see WriteWindow
    fence(host_, rank_);
}

void Executor::throw_broken() {
    PeerLost broken("an earlier call failed, so this communicator is closed");
    broken.second_hand = true;
    throw broken;
}

std::vector<std::uint64_t> Executor::sent_over_links() const {
    std::vector<std::uint64_t> sent;
    for (const auto& link : links_) sent.push_back(link.sent());
    return sent;
}

void Executor::begin_again(std::span<const std::uint64_t> sent_to_this, std::uint64_t sequence,
                           Clock::time_point deadline, Caller& caller) {
    caller.takes_a_while();
    Stoppable stoppable(*this, caller);
    for (int peer = 0; peer < size(); ++peer) {
        if (links_[static_cast<std::size_t>(peer)].get() == nullptr) continue;
        discard(peer, sent_to_this[static_cast<std::size_t>(peer)], [&] {
            stoppable.look_up();
            if (Clock::now() >= deadline)
                throw DeadlineExceeded("rank " + std::to_string(rank_) +
                                           " has waited for what is left of a call that failed, of rank " +
                                           std::to_string(peer),
                                       {peer}, "");
        });
    }
    sequence_ = sequence;
    recorder_->count_from(sequence);
    // What boards still say of older calls has lower numbers.
    host_.neighbours.call = sequence;
    host_.neighbours.tried.clear();
    ++host_.neighbours.era;
    for (auto& neighbour : host_.neighbours.ranks) neighbour.known = Moment::of(sequence, 1);
    if (host_.own) host_.own->board().failed.store(0, std::memory_order_seq_cst);
    broken_ = false;
}

void Executor::discard(int peer, std::uint64_t sent, const std::function<void()>& look_up) {
    auto& link = links_[static_cast<std::size_t>(peer)];
    const std::array<const Link*, 1> links{link.get()};
    Waiter waiter(links, Patience::with_more_ranks_than_cores());
    try {
        while (!link.discard_up_to(sent))
            if (waiter.pause()) look_up();
    } catch (const PeerLost& lost) {
        throw PeerLost::of(rank_, peer, lost.reason);
    }
}

void Executor::leave() {
    if (host_.own && origin_.is_here()) host_.own->board().left.store(1, std::memory_order_release);
}

}  // namespace unisono
