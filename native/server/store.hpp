#pragma once

#include <map>
#include <memory>
#include <set>
#include <unordered_map>

#include "server/apply_log.hpp"
#include "server/table.hpp"

namespace unisono::server {

/// What a shard grants, at most.
struct Quotas {
    std::size_t tables = 256;
    std::size_t memory = std::size_t{64} << 30;  // of all tables
    std::size_t held = std::size_t{4} << 30;     // of what a worker has prepared, in one table
    std::size_t clients = 4096;
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
    Store(std::uint32_t expected, Quotas quotas, RunRule rule, std::unique_ptr<ApplyLog> log = {});

    /// Mismatch if there is such a table of another description.
    Table& create(const Header& head, Bytes payload);
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
    void load(Bytes content);
    void flush_log();

  private:
    Table& add_table(std::uint32_t number, const TableSpec& spec, Bytes given);
    void note(Kind kind, std::uint32_t worker, std::uint64_t incarnation, std::uint32_t table,
              std::uint64_t clock);
    void require_room(const Table& table, const Header& head) const;

    Quotas quotas_;
    RunRule rule_;
    std::unique_ptr<ApplyLog> log_;
    std::map<std::uint32_t, Member> members_;
    std::map<std::uint32_t, Table> tables_;
};

}  // namespace unisono::server
