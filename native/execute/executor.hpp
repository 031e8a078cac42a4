#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/dtype.hpp"
#include "execute/host.hpp"
#include "execute/program.hpp"
#include "execute/shared_run.hpp"
#include "execute/watch.hpp"
#include "observe/recorder.hpp"
#include "reduce/reduce.hpp"
#include "transport/link.hpp"
#include "transport/wait.hpp"

namespace unisono {

/// The memory and the arguments of one call; sizes and offsets are in bytes, one of each per block.
struct Call {
    const std::byte* in;
    std::byte* out;
    std::span<const std::uint64_t> sizes;
    std::span<const std::uint64_t> in_offsets;
    std::span<const std::uint64_t> out_offsets;
    Dtype dtype;
    Op op;
    std::uint64_t fingerprint;  // of everything that all ranks have to agree on
    bool pairwise;              // a call of sender and receiver only, which the others know nothing of
    Clock::time_point deadline;
    Label label{};
};

/// What went over the links, without headers.
struct Counters {
    std::uint64_t calls = 0;
    std::vector<std::uint64_t> sent;      // bytes to each peer
    std::vector<std::uint64_t> received;  // bytes from each peer
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
    void run(const Program& program, const Call& call, const std::function<void()>& interrupt);

    /// The same for ranks that share memory.
    void run(const SharedPlan& plan, SharedRun::Array in, SharedRun::Array out, Clock::time_point deadline,
             const Label& label, const std::function<void()>& interrupt);

    /// Tells the ranks of this host that this one makes no more calls, so that its end is no failure.
    void leave();

    Neighbours& neighbours() { return host_.neighbours; }
    const Counters& counters() const { return counters_; }
    const std::shared_ptr<Recorder>& recorder() const { return recorder_; }
    int rank() const { return rank_; }
    int size() const { return static_cast<int>(links_.size()); }

  private:
    class Run;

    Patience patience() const {
        return host_.more_ranks_than_cores ? Patience::with_more_ranks_than_cores() : Patience();
    }
    void require_whole() const;
    void fail();

    int rank_;
    std::vector<std::unique_ptr<Link>> links_;
    Host host_;
    Counters counters_;
    std::shared_ptr<Recorder> recorder_;  // others may look at what happened after we are gone
    std::vector<std::byte> scratch_;
    std::uint64_t sequence_ = 0;
    std::vector<std::uint64_t> sent_in_pairs_;      // messages to each peer in pairwise calls
    std::vector<std::uint64_t> received_in_pairs_;  // messages from each peer in pairwise calls
    bool broken_ = false;
};

}  // namespace unisono
