#pragma once

#include <map>
#include <memory>
#include <optional>

#include "server/content.hpp"

namespace unisono::server {

/// A table's part on one shard, with the clocks of its workers.
///
/// A worker's clock is how many clocks it has committed. What it pushed in clock t is held until it has
/// committed t and nobody's clock is below t + 1 - bound: so no read ever has more than `bound` clocks of
/// anybody that the slowest has not reached. Under bsp (bound 0) a clock is applied at once: the
/// contributions of all workers are added in the order of their ranks, and the sum is one update, as one
/// process would make it.
///
/// A read of a worker at clock c needs everybody at c - bound; then its own c clocks have been applied, too.
class Table {
  public:
    Table(TableSpec spec, const PythonRules& rules);

    const TableSpec spec;
    Content& content() { return *content_; }
    const Content& content() const { return *content_; }

    // Members: who is waited for.
    /// At the slowest clock, or where a snapshot left them. All at once: none is ahead of who follows it.
    void join(const std::vector<std::uint32_t>& workers);
    /// What it has committed counts, and nothing else.
    void end(std::uint32_t worker);

    /// For a clock that the worker will commit.
    void prepare(const Header& head, Bytes payload);
    /// Forgets what the worker has prepared for this clock.
    void withdraw(std::uint32_t worker, std::uint64_t clock) { prepared_.erase({worker, clock}); }
    /// The clock has to be the worker's next one.
    void commit(std::uint32_t worker, std::uint64_t clock);

    bool may_read(std::uint32_t worker, std::uint64_t clock) const;
    /// May the worker, which is at this clock, commit the next? Else what is held would grow without end.
    bool may_commit(std::uint64_t clock) const { return !spec.clocked() || slowest_ + spec.bound >= clock; }

    std::uint64_t slowest() const { return slowest_; }
    /// Up to which clock a read of this worker, at its clock, has everybody's updates. An asynchronous table
    /// has those that were acknowledged to the reader itself, whether this shard has heard of its clocks or
    /// not.
    std::uint64_t complete_for(std::uint32_t worker, std::uint64_t clock) const;
    const std::map<std::uint32_t, std::uint64_t>& clocks() const { return clocks_; }
    /// Those that have ended, and the clocks that they had committed.
    const std::map<std::uint32_t, std::uint64_t>& departed() const { return departed_; }
    /// How many of a worker's clocks are in the values.
    std::uint64_t applied(std::uint64_t clock) const {
        return spec.clocked() ? std::min(clock, slowest_ + spec.bound) : clock;
    }
    std::optional<std::uint64_t> clock_of(std::uint32_t worker) const;

    std::size_t memory() const;
    /// Of what is not applied yet.
    std::size_t held() const;
    std::size_t held_of(std::uint32_t worker) const;
    /// What it takes to hold a contribution, at most.
    std::size_t to_hold(const Header& head, Bytes payload) const;
    /// What is held is not saved: whoever resumes computes it again.
    void save(Packer& into) const;
    /// Before anybody joins.
    void load(Unpacker& from);

  private:
    void advance();
    void apply_all(std::map<std::uint32_t, std::unique_ptr<Contribution>>& contributions);

    const PythonRules rules_;
    std::unique_ptr<Content> content_;
    std::map<std::uint32_t, std::uint64_t> clocks_;
    std::map<std::uint32_t, std::uint64_t> departed_;
    std::map<std::uint32_t, std::uint64_t> resumed_;  // where workers were when the snapshot was taken
    std::uint64_t slowest_ = 0;
    // Not committed, as far as this shard has heard: by worker and clock. The coordinator may be ahead.
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::unique_ptr<Contribution>> prepared_;
    std::map<std::uint64_t, std::map<std::uint32_t, std::unique_ptr<Contribution>>> held_;  // by clock
};

}  // namespace unisono::server
