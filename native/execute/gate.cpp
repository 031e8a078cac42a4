#include "execute/gate.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <string>

#include "base/error.hpp"
#include "base/fork.hpp"

namespace unisono {

namespace {

/// Looks that take about that long, if the line stays in the cache.
constexpr int spins_of_a_microsecond = 50;

/// Looks before the others of the core are asked whether they have got what they wait for.
constexpr int looks_at_first = 1000;

/// What a rank waits for, told as long as it lives.
class Awaited {
  public:
    Awaited(Board& own, std::uint64_t ranks, std::uint64_t moment) : moment_(own.awaited_moment) {
        own.awaited_ranks.store(ranks, std::memory_order_relaxed);
        moment_.store(moment, std::memory_order_release);
    }
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;
    ~Awaited() { moment_.store(0, std::memory_order_relaxed); }

  private:
    std::atomic<std::uint64_t>& moment_;
};

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
        wait_until(peer, line, before, Ranks::of(peer));
        // This rank did not wait for that one in the call before, and nobody else may have compared the two.
        compare(peer, line, neighbours_.before);
    }
    neighbours_.before = {call_, waiting_.watch.sequence(), fingerprint_};
    in_ = in;
    out_ = out;
    require_that_nobody_has_given_up();
}

/// This call, or one before it: what others have left of it would do for a result that they never get.
void Gate::require_that_nobody_has_given_up() {
    for (int peer = 0; peer < static_cast<int>(neighbours_.ranks.size()); ++peer) {
        if (peer == rank_) continue;
        const auto failed = neighbour(peer).inbox->board().failed.load(std::memory_order_relaxed);
        if (failed == 0 || failed > call_) continue;
        show_that_it_has_entered();
        throw PeerLost::given_up(rank_, peer);
    }
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

void Gate::wait_for(int peer, std::uint64_t step, std::uint64_t together) {
    const auto moment = Moment::of(call_, step);
    if (neighbour(peer).known >= moment) return;
    const bool first = Moment::call(neighbour(peer).known) < call_;
    const bool spun = wait_until(peer, line_of(peer), moment, together);
    if (!first) return;
    compare(peer);
    waiting_.recorder.arrived(peer, spun ? quick_now() : waiting_.recorder.latest());
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

bool Gate::wait_until(int peer, const Line& line, std::uint64_t moment, std::uint64_t together) {
    if (reached(peer, line, moment)) return false;
    std::optional<Awaited> told;
    if (waiting_.patience.shares_its_core) {
        tell_core();
        told.emplace(neighbours_.own->board(), together, moment);
    }
    if (const auto spins = spin_until(peer, line, moment)) return *spins >= spins_of_a_microsecond;
    waiting_.recorder.begin_wait();
    waiting_.recorder.wait_for(peer);
    give_the_core_away_until(peer, line, moment);
    waiting_.recorder.end_wait();
    return false;
}

/// Returns after how many looks it was reached, without giving the core away; nothing if that takes longer.
/// Who runs here does not change while this rank does, so the others of the core are looked at once.
std::optional<int> Gate::spin_until(int peer, const Line& line, std::uint64_t moment) {
    const bool shares = waiting_.patience.shares_its_core;
    if (shares && is_core_needed(moment)) return {};
    for (int spin = 1; spin < waiting_.patience.spins; ++spin) {
        if (reached(peer, line, moment)) return spin;
        if (spin == looks_at_first && shares && has_another_got_all()) return {};
    }
    return {};
}

void Gate::tell_core() const {
    auto& told = neighbours_.own->board().core;
    const auto here = ::sched_getcpu();
    // Others have the line in their caches: it is not written without need.
    if (told.load(std::memory_order_relaxed) != here) told.store(here, std::memory_order_relaxed);
}

/// Does a rank that was last seen on this core not wait, or not as far on as this one? Or is it its turn:
/// where all wait for one that waits for them, whoever has the core when that comes would be ahead of the
/// others by a call.
bool Gate::is_core_needed(std::uint64_t moment) const {
    const bool takes_turns = waiting_.patience.takes_turns && has_signalled_ && !has_yielded_;
    return any_on_this_core(
        [&](const Board&, std::uint64_t awaited) { return takes_turns || awaited < moment; });
}

/// Takes lines from other cores, which are about to write them: not the first thing to ask.
bool Gate::has_another_got_all() const {
    return any_on_this_core([&](const Board& board, std::uint64_t awaited) {
        return have_come(board.awaited_ranks.load(std::memory_order_relaxed), awaited);
    });
}

/// Of each, its board and the moment that it waits for; 0 if it does not wait.
template <class Condition>
bool Gate::any_on_this_core(Condition is_so) const {
    const auto here = neighbours_.own->board().core.load(std::memory_order_relaxed);
    for (int peer = 0; peer < static_cast<int>(neighbours_.ranks.size()); ++peer) {
        if (peer == rank_) continue;
        const auto& board = neighbour(peer).inbox->board();
        // Acquire, pairs with Awaited. What is told may be of two waits: then a core is given away, or kept,
        // in vain.
        if (board.core.load(std::memory_order_relaxed) == here &&
            is_so(board, board.awaited_moment.load(std::memory_order_acquire)))
            return true;
    }
    return false;
}

bool Gate::have_come(std::uint64_t ranks, std::uint64_t moment) const {
    for (; ranks != 0; ranks &= ranks - 1) {
        const auto rank = std::countr_zero(ranks);
        if (rank >= static_cast<int>(neighbours_.ranks.size())) return true;  // a broken peer's word
        const auto& inbox = rank == rank_ ? neighbours_.own : neighbour(rank).inbox;
        if (inbox->board().line(Moment::call(moment)).progress.load(std::memory_order_relaxed) < moment)
            return false;
    }
    return true;
}

void Gate::give_the_core_away_until(int peer, const Line& line, std::uint64_t moment) {
    const auto since = waiting_.recorder.wait_began();
    const auto& patience = waiting_.patience;
    const auto waited = [&] { return quick_now() - since; };
    for (int yield = 0;
         waited() < patience.yield_time || (yield < patience.yields && waited() < Patience::longest_yielding);
         ++yield) {
        if (yield == patience.kept_yields) waiting_.watch.begin();
        ::sched_yield();
        has_yielded_ = true;
        if (reached(peer, line, moment)) return;
        look_up(peer, line, moment);
        if (patience.shares_its_core && spin_until(peer, line, moment)) return;
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
    waiting_.recorder.update_wait(quick_now());
    if (&line == &line_of(peer)) {
        show_that_it_has_entered();
        compare(peer);
    }
    waiting_.watch.look({[&](int rank) { return rank == peer; }, [&] { return std::vector<int>{peer}; },
                         [&] { return reached(peer, line, moment); }});
}

}  // namespace unisono
