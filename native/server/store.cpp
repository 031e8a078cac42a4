#include "server/store.hpp"

#include <algorithm>

namespace unisono::server {

namespace {

std::vector<std::byte> packed(const TableSpec& spec) {
    Packer packer;
    spec.pack(packer);
    return packer.bytes;
}

}  // namespace

Store::Store(std::uint32_t expected, Quotas quotas, RunRule rule, std::unique_ptr<ApplyLog> log)
    : quotas_(quotas), rule_(std::move(rule)), log_(std::move(log)) {
    for (std::uint32_t worker = 0; worker < expected; ++worker) members_[worker] = {};
}

Table& Store::create(const Header& head, Bytes payload) {
    Unpacker unpacker(payload);
    const TableSpec spec = TableSpec::unpack(unpacker);
    if (Table* table = find(head.table)) {
        if (packed(table->spec) != packed(spec))
            throw Refused("worker " + std::to_string(head.worker) + " describes table '" + spec.name +
                              "' otherwise than who made it (table '" + table->spec.name +
                              "'): shape, dtype, update, consistency and first values have to be the same",
                          Trouble::mismatch);
        return *table;
    }
    Table& table = add_table(head.table, spec, unpacker.rest());
    if (log_) log_->note(head, payload);
    return table;
}

Table& Store::add_table(std::uint32_t number, const TableSpec& spec, Bytes given) {
    if (tables_.size() >= quotas_.tables)
        throw Refused("table '" + spec.name + "': a server has " + std::to_string(quotas_.tables) +
                      " tables at most");
    if (spec.layout == Layout::dense) {
        std::size_t used = 0;
        for (const auto& [_, table] : tables_) used += table.memory();
        const std::size_t each = spec.value_bytes() * (1 + slots_of(spec));
        if (spec.extent > (quotas_.memory - std::min(used, quotas_.memory)) / each)
            throw Refused("table '" + spec.name + "': " + std::to_string(spec.extent) +
                          " elements are more than this shard has room for");
    }
    Table& table = tables_.try_emplace(number, spec, given, rule_).first->second;
    for (const auto& [worker, _] : members_) table.join(worker);
    return table;
}

Table* Store::find(std::uint32_t number) {
    const auto found = tables_.find(number);
    return found == tables_.end() ? nullptr : &found->second;
}

Table& Store::table(std::uint32_t number) {
    if (Table* table = find(number)) return *table;
    throw Refused("there is no table of number " + std::to_string(number));
}

const Store::Member* Store::member(std::uint32_t worker) const {
    const auto found = members_.find(worker);
    return found == members_.end() ? nullptr : &found->second;
}

bool Store::push(const Header& head, Bytes payload) {
    const auto member = members_.find(head.worker);
    if (member == members_.end() || member->second.incarnation != head.incarnation)
        throw Refused("worker " + std::to_string(head.worker) + " is no member any more", Trouble::lost);
    if (head.sequence <= member->second.watermark) return false;
    Table& table = this->table(head.table);
    require_room(table, head);
    if (head.kind == Kind::prepare)
        table.prepare(head, payload);
    else
        table.content().apply(head, payload);
    member->second.watermark = head.sequence;
    if (log_) log_->note(head, payload);
    return true;
}

void Store::require_room(const Table& table, const Header& head) const {
    const TableSpec& spec = table.spec;
    if (spec.clocked() != (head.kind == Kind::prepare))
        throw Malformed("a push that does not fit the consistency");
    if (spec.clocked() && table.held_of(head.worker) > quotas_.held)
        throw Refused("table '" + spec.name + "': worker " + std::to_string(head.worker) + " has more than " +
                      std::to_string(quotas_.held) + " bytes in clocks that are not applied yet");
    if (spec.layout == Layout::sparse && table.memory() > quotas_.memory)
        throw Refused("table '" + spec.name + "': this shard has no room for more rows");
}

void Store::joined(std::uint32_t worker, std::uint64_t incarnation) {
    const bool expected = members_.contains(worker);
    members_[worker] = {incarnation, 0};
    if (!expected)
        for (auto& [_, table] : tables_) table.join(worker);
    note(Kind::joined, worker, incarnation, 0, 0);
}

void Store::ended(std::uint32_t worker) {
    members_.erase(worker);
    for (auto& [_, table] : tables_) table.end(worker);
    note(Kind::ended, worker, 0, 0, 0);
}

void Store::committed(std::uint32_t worker, std::uint32_t number, std::uint64_t clock) {
    table(number).commit(worker, clock);
    note(Kind::committed, worker, 0, number, clock);
}

void Store::replay(const Header& head, Bytes payload) {
    switch (head.kind) {
        case Kind::create:
            create(head, payload);
            return;
        case Kind::joined:
            return joined(head.worker, head.incarnation);
        case Kind::ended:
            return ended(head.worker);
        case Kind::committed:
            return committed(head.worker, head.table, head.clock);
        default:
            push(head, payload);
    }
}

void Store::note(Kind kind, std::uint32_t worker, std::uint64_t incarnation, std::uint32_t table,
                 std::uint64_t clock) {
    if (!log_) return;
    Header head;
    head.kind = kind;
    head.worker = worker;
    head.incarnation = incarnation;
    head.table = table;
    head.clock = clock;
    log_->note(head, {});
}

std::vector<std::byte> Store::save() const {
    Packer packer;
    packer.put(static_cast<std::uint64_t>(tables_.size()));
    for (const auto& [number, table] : tables_) {
        packer.put(number);
        table.spec.pack(packer);
        table.save(packer);
    }
    return std::move(packer.bytes);
}

void Store::load(Bytes content) {
    if (!tables_.empty()) throw Refused("a snapshot is loaded before the first table is made");
    if (log_)
        throw Refused(
            "a server that keeps an apply log cannot load a snapshot: the log would not begin there");
    Unpacker unpacker(content);
    for (auto left = unpacker.take<std::uint64_t>(); left > 0; --left) {
        const auto number = unpacker.take<std::uint32_t>();
        const TableSpec spec = TableSpec::unpack(unpacker);
        add_table(number, spec, {}).load(unpacker);
    }
}

void Store::flush_log() {
    if (log_) log_->flush();
}

}  // namespace unisono::server
