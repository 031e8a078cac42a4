#include "server/client_table.hpp"

#include <algorithm>
#include <utility>

namespace unisono::server {

ClientTable::ClientTable(Client& client, TableSpec spec, std::uint32_t number)
    : client_(client), spec_(std::move(spec)), number_(number) {}

Header ClientTable::head(Kind kind) const {
    Header result;
    result.kind = kind;
    result.table = number_;
    result.clock = clock_;
    return result;
}

OperationPtr ClientTable::create(Bytes given) {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    for (std::uint32_t shard = 0; shard < client_.shards(); ++shard) {
        const Bytes mine = given_to(shard, given);
        for (std::size_t done = 0; done == 0 || done < mine.size(); done += given_bytes) {
            Packer packer;
            spec_of(shard).pack(packer);
            packer.put(mine.subspan(done, std::min(given_bytes, mine.size() - done)));
            Header request = head(Kind::create);
            request.first = done;
            client_.issue(shard, {request, std::move(packer.bytes), {}, operation, {}, {}});
        }
    }
    return operation;
}

OperationPtr ClientTable::confirm() {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    client_.issue(0, {head(Kind::confirm), {}, {}, operation, {}, {}});
    return operation;
}

OperationPtr ClientTable::abandon() {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    for (std::uint32_t shard = 0; shard < client_.shards(); ++shard)
        client_.issue(shard, {head(Kind::abandon), {}, {}, operation, {}, {}});
    return operation;
}

OperationPtr ClientTable::prepare() {
    const std::lock_guard lock(client_.mutex());
    committing_ = true;
    auto operation = std::make_shared<Operation>();
    if (spec_.clocked()) send_pending(operation);
    return operation;
}

OperationPtr ClientTable::commit() {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    Header request = head(Kind::commit);
    request.clock = clock_ + 1;
    client_.issue(0, {request, {}, {}, operation, {}, {}});
    return operation;
}

void ClientTable::committed() {
    const std::lock_guard lock(client_.mutex());
    absorb_pending();
    ++clock_;
    committing_ = false;
    for (const Early& early : std::exchange(early_, {})) store_eager(early.shard, early.head, early.payload);
}

OperationPtr ClientTable::withdraw() {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    for (std::uint32_t shard = 0; shard < client_.shards(); ++shard)
        client_.issue(shard, {head(Kind::withdraw), {}, {}, operation, {}, {}});
    forget_pending();
    committing_ = false;
    return operation;
}

void ClientTable::take_eager(std::uint32_t shard, const Header& head, Bytes payload) {
    if (head.sequence > clock_)  // our pending pushes are in it, and still here, too
        early_.push_back({shard, head, {payload.begin(), payload.end()}});
    else
        store_eager(shard, head, payload);
}

void ClientTable::renew(std::uint32_t shard) {
    std::erase_if(early_, [&](const Early& early) { return early.shard == shard; });
    forget_subscriptions(shard);
}

void ClientTable::show(std::byte* values, const std::byte* gradients, std::size_t elements) const {
    apply(spec_, {values, nullptr, 0}, gradients, elements);
}

Bytes ClientTable::open(const Header& head, Bytes payload, std::uint64_t asked_at,
                        Operation& operation) const {
    ReadInfo& read = operation.read;
    if (head.incarnation >= read.waited && head.worker != nobody) {
        read.waited = head.incarnation;
        read.awaited = head.worker;
    }
    note(operation, head.clock, asked_at);
    if (!(head.flags & with_clocks)) return payload;
    Unpacker unpacker(payload);
    std::uint64_t missing = 0, extra = 0;
    for (auto left = unpacker.take<std::uint64_t>(); left > 0; --left) {
        const auto worker = unpacker.take<std::uint64_t>();
        const auto applied = unpacker.take<std::uint64_t>();
        if (worker == client_.worker()) continue;
        if (!(worker & has_ended)) missing += asked_at - std::min(asked_at, applied);
        extra += std::max(asked_at, applied) - asked_at;
    }
    read.missing = std::max(read.missing, missing);
    read.extra = std::max(read.extra, extra);
    return unpacker.rest();
}

void ClientTable::note(Operation& operation, std::uint64_t row_clock, std::uint64_t asked_at) const {
    operation.read.staleness = std::max(operation.read.staleness, asked_at - std::min(asked_at, row_clock));
}

}  // namespace unisono::server
