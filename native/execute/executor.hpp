#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "execute/gone.hpp"
#include "execute/host.hpp"
#include "execute/link_plan.hpp"
#include "execute/request.hpp"
#include "execute/shared_plan.hpp"
#include "transport/link.hpp"
#include "transport/wait.hpp"

namespace unisono {

/// What went between this rank and the others, without headers. Others may look while a call goes on.
struct Counters {
    explicit Counters(std::size_t ranks) : sent(ranks), received(ranks) {}

    std::atomic<std::uint64_t> calls = 0;
    std::vector<std::atomic<std::uint64_t>> sent;      // bytes to each peer
    std::vector<std::atomic<std::uint64_t>> received;  // bytes from each peer
};

/// Runs programs over the links of one rank, one at a time. After a failure it runs nothing any more.
class Executor {
  public:
    /// `links` has a link for every peer, and nothing for the rank itself.
    Executor(int rank, std::vector<std::unique_ptr<Link>> links, Host host);
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    ~Executor();

    /// Blocks until the program is through; calls `interrupt` now and then, which may throw.
    void run(const LinkPlan& plan, const Request& request, const std::function<void()>& interrupt);
    void run(const SharedPlan& plan, const Request& request, const std::function<void()>& interrupt);

    /// Tells the ranks of this host that this one makes no more calls, so that its end is no failure.
    void leave();

    /// From another thread: the call under way fails soon, and so do all others.
    void stop() { stopped_.store(true, std::memory_order_relaxed); }

    /// Who makes no more calls. Not while a call is under way.
    Gone gone() const { return look_for_gone(host_, links_); }

    Neighbours& neighbours() { return host_.neighbours; }
    const Counters& counters() const { return counters_; }
    const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
    int rank() const { return rank_; }
    int size() const { return static_cast<int>(links_.size()); }

  private:
    class Run;

    Patience patience(const Request& request) const {
        if (request.in_background) return Patience::in_the_background();
        return host_.more_ranks_than_cores ? Patience::with_more_ranks_than_cores() : Patience();
    }
    /// Runs a call with what has to be computed before and after it.
    template <class Go>
    void run(const Arithmetic& arithmetic, Request request, std::uint64_t sequence, Go go);
    std::function<void()> stoppable(const std::function<void()>& interrupt) const;
    Array premultiplied(const Arithmetic& arithmetic, Array in);
    void fail();

    int rank_;
    std::vector<std::unique_ptr<Link>> links_;
    Host host_;
    Counters counters_;
    std::shared_ptr<Recorder> recorder_;  // others may look at what happened after we are gone
    std::vector<std::byte> scratch_;
    std::vector<std::byte> premultiplied_;
    std::uint64_t sequence_ = 0;
    std::vector<std::uint64_t> sent_in_pairs_;      // messages to each peer in pairwise calls
    std::vector<std::uint64_t> received_in_pairs_;  // messages from each peer in pairwise calls
    bool broken_ = false;
    std::atomic<bool> stopped_ = false;
};

}  // namespace unisono
