#pragma once

#include <memory>
#include <span>
#include <vector>

#include "server/update.hpp"

namespace unisono::server {

using Bytes = std::span<const std::byte>;

/// What a worker has pushed in one clock, summed up, in the table's own type.
class Contribution {
  public:
    virtual ~Contribution() = default;
    virtual void take(const Header& head, Bytes payload) = 0;
    /// Another worker's, after this one.
    virtual void merge(const Contribution& other) = 0;
    virtual std::size_t memory() const = 0;
    /// What `take` would add to it, at most. Malformed if it would be.
    virtual std::size_t memory_of_more(const Header& head, Bytes payload) const = 0;
};

/// The values of a table's part on one shard, and the state of their updates. Requests are checked here
/// before anything is changed or allocated: Malformed, or Refused.
class Content {
  public:
    virtual ~Content() = default;

    /// A part of the first values, of which all workers give the same. False if it had been given before.
    virtual bool give(std::uint64_t /*first_byte*/, Bytes /*part*/) { return false; }
    /// Are all of them there?
    virtual bool complete() const { return true; }

    virtual void apply(const Header& head, Bytes payload) = 0;
    virtual void apply(const Contribution& contribution) = 0;
    virtual std::unique_ptr<Contribution> hold() const = 0;

    /// Appends the values that are asked for, as they go over the wire.
    virtual void read(const Header& head, Bytes payload, std::vector<std::byte>& into) = 0;
    /// The same without a copy, where that is possible: valid until the table ends, and changed by its
    /// updates.
    virtual Bytes borrow(const Header& head) const = 0;

    /// From now on, the keys of rows that are updated are noted for take_changes.
    virtual void watch_changes() {}
    virtual std::vector<std::int64_t> take_changes() { return {}; }

    virtual std::size_t memory() const = 0;
    /// What `apply` would add to it: at most, which is quickly said, or exactly. Malformed if it would be.
    virtual std::size_t memory_of_more(const Header&, Bytes, bool /*exactly*/) const { return 0; }
    virtual void save(Packer& into) const = 0;
    virtual void load(Unpacker& from) = 0;
};

std::unique_ptr<Content> make_dense(const TableSpec& spec, const PythonRules& rules);
std::unique_ptr<Content> make_sparse(const TableSpec& spec, const PythonRules& rules);

}  // namespace unisono::server
