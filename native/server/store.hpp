#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "server/apply_log.hpp"
#include "server/table.hpp"

namespace unisono::server {

/// What a shard grants, at most.
struct Quotas {
    std::size_t tables = 256;
    std::size_t memory = std::size_t{64} << 30;  // of all tables, and of what is held for them
    std::size_t held = std::size_t{4} << 30;     // of what a worker has prepared, in one table
    std::size_t clients = 4096;
    std::size_t subscribed = std::size_t{1} << 30;  // of the keys that a client is told the news of
};

/// The state of a shard: a function of the events that it was given, in their order. It does no input or
/// output but the log of these events, so that it can be replayed, and later replicated.
class Store {
  public:
    struct Member {
        std::uint64_t incarnation = 0;  // 0: expected, and not seen yet
        std::uint64_t watermark = 0;    // its last push or prepare that counts
    };

    /// Workers 0 to `expected` - 1 are waited for from the beginning.
    Store(std::uint32_t expected, Quotas quotas, PythonRules rules, std::unique_ptr<ApplyLog> log = {});

    // A table is made on all shards or on none. Until one of the workers that try has been taken everywhere,
    // and the coordinator has said so, it is there on trial.
    /// Mismatch if there is such a table of another description.
    Table& create(const Header& head, Bytes payload);
    bool is_tried_by(std::uint32_t worker, std::uint32_t table) const;
    bool is_made(std::uint32_t table) const { return tables_.contains(table) && !trials_.contains(table); }
    void made(std::uint32_t table) { trials_.erase(table); }
    /// True if nobody else tries: then it is gone.
    bool abandon(std::uint32_t worker, std::uint32_t table);
    /// Those that are gone now that this worker tries no longer.
    std::vector<std::uint32_t> abandon_all(std::uint32_t worker);

    Table& table(std::uint32_t number);
    Table* find(std::uint32_t number);

    /// Once for each sequence of an incarnation; false if it had been applied before.
    bool push(const Header& head, Bytes payload);

    void joined(std::uint32_t worker, std::uint64_t incarnation);
    void ended(std::uint32_t worker);
    void committed(std::uint32_t worker, std::uint32_t table, std::uint64_t clock);

    /// One event of a log.
    void replay(const Header& head, Bytes payload);

    const std::map<std::uint32_t, Member>& members() const { return members_; }
    const Member* member(std::uint32_t worker) const;
    const std::map<std::uint32_t, Table>& tables() const { return tables_; }
    std::map<std::uint32_t, Table>& tables() { return tables_; }

    std::vector<std::byte> save() const;
    // What was saved is loaded in two steps, as all shards load it or none: whatever can be refused is
    // refused by the first one. In between no table can be made.
    void stage(Bytes content);
    void load_staged();
    void forget_staged() { staged_.reset(); }
    void flush_log();

  private:
    void require_possible(const TableSpec& spec, const std::map<std::uint32_t, Table>& beside) const;
    void note(Kind kind, std::uint32_t worker, std::uint64_t incarnation, std::uint32_t table,
              std::uint64_t clock);
    void require_room(const Table& table, const Header& head, Bytes payload) const;
    std::size_t memory() const;

    Quotas quotas_;
    PythonRules rules_;
    std::unique_ptr<ApplyLog> log_;
    std::map<std::uint32_t, Member> members_;
    std::map<std::uint32_t, Table> tables_;
    std::map<std::uint32_t, std::set<std::uint32_t>> trials_;  // workers, by the tables that they try to make
    std::optional<std::map<std::uint32_t, Table>> staged_;
};

}  // namespace unisono::server
