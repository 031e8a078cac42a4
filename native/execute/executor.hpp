#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fork.hpp"
#include "execute/caller.hpp"
#include "execute/counted_link.hpp"
#include "execute/counters.hpp"
#include "execute/gone.hpp"
#include "execute/host.hpp"
#include "execute/injection.hpp"
#include "execute/link_plan.hpp"
#include "execute/link_scratch.hpp"
#include "execute/request.hpp"
#include "execute/shared_plan.hpp"
#include "transport/link.hpp"
#include "transport/wait.hpp"

namespace unisono {

/// Runs programs over the links of one rank, one at a time. After a failure it runs nothing any more, unless
/// all ranks begin again.
class Executor {
  public:
    /// `links` has a link for every peer, and nothing for the rank itself.
    Executor(int rank, std::vector<std::unique_ptr<Link>> links, Host host);
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    ~Executor();

    /// Blocks until the program is through.
    void run(const LinkPlan& plan, const Request& request, Caller& caller);
    void run(const SharedPlan& plan, const Request& request, Caller& caller);

    /// May a call succeed, as far as this rank knows?
    bool is_whole() const {
        return !broken_ && failed_.load(std::memory_order_relaxed) == Turn::never &&
               !stopped_.load(std::memory_order_relaxed) && origin_.is_here();
    }

    /// Failures to rehearse, in calls that have not begun. Not while a call is under way.
    void inject(std::vector<Injection> injections) { injections_ = Injections(std::move(injections)); }

    /// Tells the ranks of this host that this one makes no more calls, so that its end is no failure.
    void leave();

    /// Bytes, with headers, that have been sent to each peer over links.
    std::vector<std::uint64_t> sent_over_links() const;
    std::uint64_t sequence() const { return sequence_; }

    /// After a call failed, and every rank has left it: drops what is still on its way to this one, of which
    /// each peer tells how much it sent in all. The next call of all ranks has this number, which none of
    /// them has used. No rank makes a call before all others are here.
    void begin_again(std::span<const std::uint64_t> sent_to_this, std::uint64_t sequence,
                     Clock::time_point deadline, Caller& caller);

    /// From another thread: that call of all ranks, and all later ones, are to be left, and earlier ones,
    /// too, if they come to nothing. Without a number, all are.
    void give_up_from(std::optional<std::uint64_t> sequence) {
        failed_.store(sequence ? Turn::of_all(*sequence) : 0, std::memory_order_release);
    }
    void give_up_nothing() { failed_.store(Turn::never, std::memory_order_release); }

    /// From another thread: the call under way fails soon, and so do all others.
    void stop() { stopped_.store(true, std::memory_order_relaxed); }

    /// PeerLost after that.
    void require_going_on() const;

    /// Who makes no more calls. Not while a call is under way.
    Gone gone() const { return look_for_gone(host_, links_); }

    Neighbours& neighbours() { return host_.neighbours; }
    const Counters& counters() const { return counters_; }
    const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
    int rank() const { return rank_; }
    int size() const { return static_cast<int>(links_.size()); }

  private:
    class Run;
    class Stoppable;

    Patience patience(const Request& request) const {
        if (request.in_background) return Patience::in_the_background();
        return host_.more_ranks_than_cores ? Patience::with_more_ranks_than_cores() : Patience();
    }
    Patience patience_at_boards(const Request& request, bool waits_for_one) const {
        if (request.in_background || !host_.more_ranks_than_cores) return patience(request);
        return Patience::of_ranks_that_share_cores(waits_for_one);
    }
    /// Runs a call with what has to be computed before and after it.
    template <class Go>
    void run(const Arithmetic& arithmetic, Request request, std::uint64_t sequence, Go go);
    Watch::Call watched(const Request& request, bool pairwise) const;
    Rehearsal rehearsal() { return injections_.into(sequence_, rank_, links_); }
    Array premultiplied(const Arithmetic& arithmetic, Array in);
    void discard(int peer, std::uint64_t sent, const std::function<void()>& look_up);
    /// `next_in_memory`: the first call of ranks that share memory that this one will not have made.
    void fail(std::uint64_t next_in_memory);
    [[noreturn]] static void throw_broken();

    Origin origin_;
    int rank_;
    std::vector<CountedLink> links_;
    Host host_;
    Counters counters_;
    std::shared_ptr<Recorder> recorder_;  // others may look at what happened after we are gone
    LinkScratch link_scratch_;
    std::vector<std::byte> premultiplied_;
    std::uint64_t sequence_ = 0;
    Injections injections_;
    bool broken_ = false;
    std::atomic<bool> stopped_ = false;
    std::atomic<std::uint64_t> failed_ = Turn::never;
};

}  // namespace unisono
