#include "server/store.hpp"

#include <algorithm>
#include <utility>

namespace unisono::server {

namespace {

std::vector<std::byte> packed(const TableSpec& spec) {
    Packer packer;
    spec.pack(packer);
    return packer.bytes;
}

/// Of the first values; Malformed if it is none.
void require_part(const TableSpec& spec, std::uint64_t first_byte, Bytes part) {
    const std::uint64_t all = spec.init == Init::given ? spec.extent * spec.value_bytes() : 0;
    if (first_byte > all || first_byte % given_bytes != 0 ||
        part.size() != std::min<std::uint64_t>(given_bytes, all - first_byte))
        throw Malformed("bytes that are no part of the first values of table '" + spec.name + "'");
}

std::size_t memory_of(const std::map<std::uint32_t, Table>& tables) {
    std::size_t bytes = 0;
    for (const auto& [_, table] : tables) bytes += table.memory() + table.held();
    return bytes;
}

std::vector<std::uint32_t> workers_of(const std::map<std::uint32_t, Store::Member>& members) {
    std::vector<std::uint32_t> workers;
    for (const auto& [worker, _] : members) workers.push_back(worker);
    return workers;
}

}  // namespace

Store::Store(std::uint32_t expected, Quotas quotas, PythonRules rules, std::unique_ptr<ApplyLog> log)
    : quotas_(quotas), rules_(std::move(rules)), log_(std::move(log)) {
    for (std::uint32_t worker = 0; worker < expected; ++worker) members_[worker] = {};
}

Table& Store::create(const Header& head, Bytes payload) {
    Unpacker unpacker(payload);
    const TableSpec spec = TableSpec::unpack(unpacker);
    Table* table = find(head.table);
    if (table && packed(table->spec) != packed(spec))
        throw Refused("worker " + std::to_string(head.worker) + " describes table '" + spec.name +
                          "' otherwise than who made it (table '" + table->spec.name +
                          "'): shape, dtype, update, consistency and first values have to be the same",
                      Trouble::mismatch);
    if (!table && staged_)
        throw Refused("table '" + spec.name +
                      "': a snapshot is being loaded; tables are made when restore() has returned");
    if (!table) require_possible(spec, tables_);
    require_part(spec, head.first, unpacker.rest());
    const bool is_new = !table;
    if (is_new) {
        table = &tables_.try_emplace(head.table, spec, rules_).first->second;
        table->join(workers_of(members_));
        trials_[head.table] = {};
    }
    if (const auto trial = trials_.find(head.table); trial != trials_.end())
        trial->second.insert(head.worker);
    const bool gives = table->content().give(head.first, unpacker.rest());
    if (log_ && (is_new || gives)) log_->note(head, payload);
    return *table;
}

bool Store::is_tried_by(std::uint32_t worker, std::uint32_t number) const {
    const auto trial = trials_.find(number);
    return trial != trials_.end() && trial->second.contains(worker);
}

bool Store::abandon(std::uint32_t worker, std::uint32_t number) {
    const auto trial = trials_.find(number);
    if (trial == trials_.end() || trial->second.erase(worker) == 0 || !trial->second.empty()) return false;
    trials_.erase(trial);
    tables_.erase(number);
    note(Kind::unmade, worker, 0, number, 0);
    return true;
}

std::vector<std::uint32_t> Store::abandon_all(std::uint32_t worker) {
    std::vector<std::uint32_t> tried;
    for (const auto& [number, workers] : trials_)
        if (workers.contains(worker)) tried.push_back(number);
    std::erase_if(tried, [&](std::uint32_t number) { return !abandon(worker, number); });
    return tried;
}

void Store::require_possible(const TableSpec& spec, const std::map<std::uint32_t, Table>& beside) const {
    if (spec.update == Update::python && rules_.require) rules_.require(spec);
    if (beside.size() >= quotas_.tables)
        throw Refused("table '" + spec.name + "': a server has " + std::to_string(quotas_.tables) +
                      " tables at most");
    if (spec.layout == Layout::dense) {
        const std::size_t each = spec.value_bytes() * (1 + slots_of(spec));
        if (spec.extent > (quotas_.memory - std::min(memory_of(beside), quotas_.memory)) / each)
            throw Refused("table '" + spec.name + "': " + std::to_string(spec.extent) +
                          " elements are more than this shard has room for");
    }
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
    if (head.kind != Kind::withdraw) require_room(table, head, payload);
    std::vector<std::byte> applied;
    if (log_) {  // what is logged is what was applied, also if it lies in memory that a peer can write to
        applied.assign(payload.begin(), payload.end());
        payload = applied;
    }
    if (head.kind == Kind::prepare)
        table.prepare(head, payload);
    else if (head.kind == Kind::withdraw)
        table.withdraw(head.worker, head.clock);
    else
        table.content().apply(head, payload);
    member->second.watermark = head.sequence;
    if (log_) log_->note(head, payload);
    return true;
}

void Store::require_room(const Table& table, const Header& head, Bytes payload) const {
    const TableSpec& spec = table.spec;
    if (spec.clocked() != (head.kind == Kind::prepare))
        throw Malformed("a push that does not fit the consistency");
    if (spec.clocked() && table.held_of(head.worker) > quotas_.held)
        throw Refused("table '" + spec.name + "': worker " + std::to_string(head.worker) + " has more than " +
                      std::to_string(quotas_.held) + " bytes in clocks that are not applied yet");
    const auto fits = [&](std::size_t more) { return more == 0 || memory() + more <= quotas_.memory; };
    const auto fits_in_table = [&](bool exactly) {
        return fits(table.content().memory_of_more(head, payload, exactly));
    };
    if (spec.clocked() ? fits(table.to_hold(head, payload)) : fits_in_table(false) || fits_in_table(true))
        return;
    throw Refused("table '" + spec.name + "': this shard has no room for more of it");
}

std::size_t Store::memory() const { return memory_of(tables_); }

void Store::joined(std::uint32_t worker, std::uint64_t incarnation) {
    const bool expected = members_.contains(worker);
    members_[worker] = {incarnation, 0};
    if (!expected)
        for (auto& [_, table] : tables_) table.join({worker});
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
        case Kind::unmade:
            tables_.erase(head.table);
            return;
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
    // One that is not made yet, or whose first values are still arriving, has been pushed to by nobody: who
    // restores makes it again.
    const auto complete = [this](const auto& one) {
        return is_made(one.first) && one.second.content().complete();
    };
    packer.bytes.reserve(memory());
    packer.put(static_cast<std::uint64_t>(std::ranges::count_if(tables_, complete)));
    for (const auto& one : tables_) {
        const auto& [number, table] = one;
        if (!complete(one)) continue;
        packer.put(number);
        table.spec.pack(packer);
        table.save(packer);
    }
    return std::move(packer.bytes);
}

void Store::stage(Bytes content) {
    forget_staged();
    if (!tables_.empty()) throw Refused("a snapshot is loaded before the first table is made");
    if (log_)
        throw Refused(
            "a server that keeps an apply log cannot load a snapshot: the log would not begin there");
    std::map<std::uint32_t, Table> made;
    Unpacker unpacker(content);
    for (auto left = unpacker.take<std::uint64_t>(); left > 0; --left) {
        const auto number = unpacker.take<std::uint32_t>();
        const TableSpec spec = TableSpec::unpack(unpacker);
        require_possible(spec, made);
        made.try_emplace(number, spec, rules_).first->second.load(unpacker);
        if (memory_of(made) > quotas_.memory)
            throw Refused("table '" + spec.name + "' of the snapshot is more than this shard has room for");
    }
    staged_ = std::move(made);
}

void Store::load_staged() {
    if (!staged_) return;
    tables_ = *std::exchange(staged_, std::nullopt);
    for (auto& [_, table] : tables_) table.join(workers_of(members_));
}

void Store::flush_log() {
    if (log_) log_->flush();
}

}  // namespace unisono::server
