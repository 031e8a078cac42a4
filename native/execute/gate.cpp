#include "execute/gate.hpp"

#include <sched.h>

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/fork.hpp"

namespace unisono {

namespace {

/// Looks that take about that long, if the line stays in the cache.
constexpr int spins_of_a_microsecond = 50;

/// A sleeper of a bell, as long as it lives.
class Sleeper {
  public:
    explicit Sleeper(Bell& bell) : bell_(bell) { bell_.enter(); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    ~Sleeper() {
        if (origin_.is_here()) bell_.leave();
    }

  private:
    Bell& bell_;
    Origin origin_;
};

}  // namespace

Gate::Gate(Neighbours& neighbours, int rank, std::uint64_t fingerprint, Waiting waiting)
    : neighbours_(neighbours),
      rank_(rank),
      fingerprint_(fingerprint),
      waiting_(waiting),
      call_(++neighbours.call),
      line_(neighbours.own->board().line(call_)) {}

void Gate::enter(Whereabouts in, Whereabouts out) {
    const auto before = Moment::of(call_ - 1, 1);
    for (int peer = 0; call_ > 1 && peer < static_cast<int>(neighbours_.ranks.size()); ++peer) {
        if (peer == rank_ || neighbour(peer).known >= before) continue;
        const Line& line = neighbour(peer).inbox->board().line(call_ - 1);
        wait_until(peer, line, before);
        // This rank did not wait for that one in the call before, and nobody else may have compared the two.
        compare(peer, line, neighbours_.before);
    }
    neighbours_.before = {call_, waiting_.watch.sequence(), fingerprint_};
    in_ = in;
    out_ = out;
}

/// With the first signal, not earlier: others look at the line all the time, and take it away in between.
void Gate::tell_about_the_call() {
    has_told_ = true;
    // Relaxed: the store to `progress` that follows releases them.
    line_.fingerprint.store(fingerprint_, std::memory_order_relaxed);
    line_.in.store(in_.bits(), std::memory_order_relaxed);
    line_.out.store(out_.bits(), std::memory_order_relaxed);
}

void Gate::signal(std::uint64_t step) {
    if (!has_told_) tell_about_the_call();
    has_signalled_ = true;
    // Releases what this rank did; sequentially consistent because the bell asks for that.
    line_.progress.store(Moment::of(call_, step), std::memory_order_seq_cst);
    neighbours_.own->board().bell.ring();
}

void Gate::wait_for(int peer, std::uint64_t step) {
    const auto moment = Moment::of(call_, step);
    if (neighbour(peer).known >= moment) return;
    const bool first = Moment::call(neighbour(peer).known) < call_;
    const bool spun = wait_until(peer, line_of(peer), moment);
    if (!first) return;
    compare(peer);
    waiting_.recorder.arrived(peer, spun ? Clock::now() : waiting_.recorder.latest());
}

void Gate::compare(int peer) const {
    compare(peer, line_of(peer), {call_, waiting_.watch.sequence(), fingerprint_});
}

void Gate::compare(int peer, const Line& line, const MadeCall& made) const {
    // Acquire, pairs with signal: the fingerprint is of that call.
    if (Moment::call(line.progress.load(std::memory_order_acquire)) != made.number) return;
    if (line.fingerprint.load(std::memory_order_relaxed) == made.fingerprint) return;
    Mismatch mismatch(
        "rank " + std::to_string(peer) + " and rank " + std::to_string(rank_) + " make call " +
            std::to_string(made.sequence) +
            " with different arguments: all ranks have to make the same calls with the same arguments in "
            "the same order",
        {peer}, "");
    if (made.number != call_) mismatch.sequence = made.sequence;
    throw mismatch;
}

bool Gate::reached(int peer, const Line& line, std::uint64_t moment) {
    auto& known = neighbour(peer).known;
    // Acquire, pairs with signal: what the peer did before is visible.
    known = std::max(known, line.progress.load(std::memory_order_acquire));
    return known >= moment;
}

bool Gate::wait_until(int peer, const Line& line, std::uint64_t moment) {
    if (const auto spins = spin_until(peer, line, moment)) return *spins >= spins_of_a_microsecond;
    waiting_.recorder.begin_wait();
    waiting_.recorder.wait_for(peer);
    give_the_core_away_until(peer, line, moment);
    waiting_.recorder.end_wait();
    return false;
}

/// Returns after how many looks it was reached, without giving the core away; nothing if that takes longer.
std::optional<int> Gate::spin_until(int peer, const Line& line, std::uint64_t moment) {
    if (reached(peer, line, moment)) return 0;
    for (int spin = 1, most = looks(Moment::call(moment)); spin < most; ++spin)
        if (reached(peer, line, moment)) return spin;
    return {};
}

/// How often to look before the core is given away. Who runs here does not change while this rank does.
int Gate::looks(std::uint64_t call) const {
    const auto& patience = waiting_.patience;
    if (patience.spins_for_other_cores == 0) return patience.spins;
    tell_core();
    return is_core_needed(call) ? 0 : patience.spins_for_other_cores;
}

void Gate::tell_core() const {
    auto& told = neighbours_.own->board().core;
    const auto here = ::sched_getcpu();
    // Others have the line in their caches: it is not written without need.
    if (told.load(std::memory_order_relaxed) != here) told.store(here, std::memory_order_relaxed);
}

/// Is a rank behind that was last seen on this core?
bool Gate::is_core_needed(std::uint64_t call) const {
    const auto& own = neighbours_.own->board();
    const auto here = own.core.load(std::memory_order_relaxed);
    const auto come_to = std::max(own.latest(), Moment::of(call, 0));
    for (int peer = 0; peer < static_cast<int>(neighbours_.ranks.size()); ++peer) {
        if (peer == rank_) continue;
        const auto& board = neighbour(peer).inbox->board();
        if (board.core.load(std::memory_order_relaxed) == here && board.latest() < come_to) return true;
    }
    return false;
}

void Gate::give_the_core_away_until(int peer, const Line& line, std::uint64_t moment) {
    const auto since = waiting_.recorder.wait_began();
    const auto& patience = waiting_.patience;
    for (int yield = 0; yield < patience.yields || Clock::now() - since < patience.yield_time; ++yield) {
        if (yield == patience.kept_yields) waiting_.watch.begin();
        ::sched_yield();
        if (reached(peer, line, moment)) return;
        look_up(peer, line, moment);
        if (patience.spins_for_other_cores > 0 && spin_until(peer, line, moment)) return;
    }
    waiting_.watch.begin();
    Bell& bell = neighbour(peer).inbox->board().bell;
    const Sleeper sleeper(bell);
    for (;;) {
        const auto ticket = bell.ticket();
        if (reached(peer, line, moment)) return;
        bell.sleep(ticket, std::chrono::milliseconds(2));
        look_up(peer, line, moment);
    }
}

/// Two ranks may wait for each other's first signal, because they make different calls: each has to see that.
void Gate::show_that_it_has_entered() {
    if (!has_told_) tell_about_the_call();
    // Releases the fingerprint to compare().
    if (!has_signalled()) line_.progress.store(Moment::of(call_, 0), std::memory_order_release);
}

void Gate::look_up(int peer, const Line& line, std::uint64_t moment) {
    if (!waiting_.watch.is_time()) return;
    waiting_.recorder.update_wait(Clock::now());
    if (&line == &line_of(peer)) {
        show_that_it_has_entered();
        compare(peer);
    }
    waiting_.watch.look({[&](int rank) { return rank == peer; }, [&] { return std::vector<int>{peer}; },
                         [&] { return reached(peer, line, moment); }});
}

}  // namespace unisono
