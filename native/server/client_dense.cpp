#include <algorithm>
#include <cstring>

#include "server/client_table.hpp"
#include "server/hash.hpp"

namespace unisono::server {

namespace {

constexpr std::size_t smallest_split = 64 << 10;  // a smaller table is on one shard

}  // namespace

ClientDense::ClientDense(Client& client, TableSpec spec, std::uint32_t number)
    : ClientTable(client, std::move(spec), number), parts_(client.shards()), clocks_(client.shards()) {
    const std::uint64_t shards = client.shards();
    const bool split = spec_.whole * spec_.value_bytes() > smallest_split;
    const std::uint32_t home = shard_of(static_cast<std::int64_t>(number), client.shards());
    for (std::uint32_t shard = 0; shard < shards; ++shard) {
        Part& part = parts_[shard];
        if (split)
            part = {spec_.whole * shard / shards, spec_.whole * (shard + 1) / shards};
        else if (shard == home)
            part = {0, spec_.whole};
    }
}

TableSpec ClientDense::spec_of(std::uint32_t shard) const {
    TableSpec spec = spec_;
    spec.extent = parts_[shard].end - parts_[shard].begin;
    return spec;
}

Bytes ClientDense::given_to(std::uint32_t shard, Bytes given) const {
    if (given.empty()) return {};
    const auto [begin, end] = parts_[shard];
    return given.subspan(begin * spec_.value_bytes(), (end - begin) * spec_.value_bytes());
}

/// Shards take turns, so that all of them are busy from the beginning.
template <class Body>
void ClientDense::each_chunk(Body body) const {
    bool more = true;
    for (std::uint64_t first = 0; more; first += spec_.chunk()) {
        more = false;
        for (std::uint32_t shard = 0; shard < parts_.size(); ++shard) {
            const std::uint64_t length = parts_[shard].end - parts_[shard].begin;
            if (first >= length) continue;
            more = true;
            body(shard, first, parts_[shard].begin + first,
                 std::min<std::uint64_t>(spec_.chunk(), length - first));
        }
    }
}

OperationPtr ClientDense::push(Bytes values) {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    if (!spec_.clocked()) {
        send(Kind::push, operation, values, {});
        return operation;
    }
    if (committing_)
        throw Refused("table '" + spec_.name + "' is in a clock() that did not end: call it again first");
    if (!pending_) {
        pending_ = std::make_shared<std::vector<std::byte>>(values.begin(), values.end());
        return operation;
    }
    if (pending_.use_count() > 1) pending_ = std::make_shared<std::vector<std::byte>>(*pending_);
    accumulate(spec_, pending_->data(), values.data(), spec_.whole);
    return operation;
}

OperationPtr ClientDense::push_pull(Bytes values, std::span<std::byte> out) {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    send(Kind::push_pull, operation, values, out);
    return operation;
}

void ClientDense::send(Kind kind, const OperationPtr& operation, Bytes values, std::span<std::byte> out) {
    each_chunk([&](std::uint32_t shard, std::uint64_t first, std::uint64_t at, std::uint64_t count) {
        Client::Request request{head(kind), {}, {}, operation, {}, {}};
        request.head.first = first;
        request.head.count = count;
        const Bytes some = values.subspan(at * spec_.value_bytes(), count * spec_.value_bytes());
        if (spec_.wire == spec_.dtype) {
            request.lent = some;
        } else {
            request.owned.resize(count * size_of(spec_.wire));
            convert(spec_.dtype, some.data(), spec_.wire, request.owned.data(), count);
        }
        if (!out.empty()) {
            std::byte* to = out.data() + at * spec_.value_bytes();
            if (spec_.wire == spec_.dtype) request.target = {to, count * spec_.value_bytes()};
            request.arrived = [this, to, asked_at = clock_, operation](const Header& reply, Bytes payload) {
                note(*operation, reply.clock, asked_at);
                if (payload.data() != to) convert(spec_.wire, payload.data(), spec_.dtype, to, reply.count);
            };
        }
        client_.issue(shard, std::move(request));
    });
}

OperationPtr ClientDense::pull(std::span<std::byte> out, bool with_info) {
    const std::lock_guard lock(client_.mutex());
    for (std::uint32_t shard = 0; shard < parts_.size(); ++shard)
        clocks_[shard].resize((parts_[shard].end - parts_[shard].begin + spec_.chunk() - 1) / spec_.chunk());
    auto operation = std::make_shared<Operation>();
    each_chunk([&](std::uint32_t shard, std::uint64_t first, std::uint64_t at, std::uint64_t count) {
        std::byte* to = out.empty() ? nullptr : out.data() + at * spec_.value_bytes();
        ++operation->read.parts;
        const auto& clock = clocks_[shard][first / spec_.chunk()];
        if (clock && fresh(*clock) && !with_info) {
            ++operation->read.cached;
            note(*operation, *clock, clock_);
            if (!to) return;
            std::memcpy(to, cache_.data() + at * spec_.value_bytes(), count * spec_.value_bytes());
            if (pending_ && linear()) show(to, pending_->data() + at * spec_.value_bytes(), count);
            return;
        }
        Client::Request request{head(Kind::pull), {}, {}, operation, {}, {}};
        request.head.flags = with_info ? with_clocks : 0;
        request.head.first = first;
        request.head.count = count;
        if (to && spec_.wire == spec_.dtype && !with_info) request.target = {to, count * spec_.value_bytes()};
        request.arrived = [this, shard, at, to, asked_at = clock_, operation,
                           own = linear() ? pending_ : nullptr](const Header& reply, Bytes payload) {
            const Bytes values = open(reply, payload, asked_at, *operation);
            finish(reply, values, at, asked_at, to);
            if (to && own) show(to, own->data() + at * spec_.value_bytes(), reply.count);
            if (caches() && asked_at == clock_) clocks_[shard][reply.first / spec_.chunk()] = reply.clock;
        };
        client_.issue(shard, std::move(request));
    });
    return operation;
}

/// Values have come, to `out` or elsewhere.
void ClientDense::finish(const Header& reply, Bytes values, std::uint64_t at, std::uint64_t asked_at,
                         std::byte* out) {
    const std::size_t offset = at * spec_.value_bytes();
    if (caches() && asked_at == clock_) {
        if (cache_.empty()) cache_.resize(spec_.whole * spec_.value_bytes());
        convert(spec_.wire, values.data(), spec_.dtype, cache_.data() + offset, reply.count);
    }
    if (!out) return;
    if (values.data() != out) convert(spec_.wire, values.data(), spec_.dtype, out, reply.count);
}

void ClientDense::store_eager(std::uint32_t shard, const Header& head, Bytes payload) {
    if (head.sequence < clock_ || head.first % spec_.chunk() != 0) return;  // without clocks of our own
    const auto [begin, end] = parts_[shard];
    if (head.first >= end - begin || payload.size() != head.count * size_of(spec_.wire) ||
        head.count != std::min<std::uint64_t>(spec_.chunk(), end - begin - head.first))
        throw Malformed("an eager push that is no chunk of table '" + spec_.name + "'");
    if (clocks_[shard].empty()) return;  // nothing was pulled
    finish(head, payload, begin + head.first, clock_, nullptr);
    clocks_[shard][head.first / spec_.chunk()] = head.clock;
}

void ClientDense::send_pending(const OperationPtr& operation) {
    if (pending_) send(Kind::prepare, operation, *pending_, {});
}

void ClientDense::absorb_pending() {
    const auto pushed = std::exchange(pending_, nullptr);
    if (!pushed || cache_.empty()) return;
    if (linear())
        show(cache_.data(), pushed->data(), spec_.whole);
    else
        for (auto& clocks : clocks_) std::ranges::fill(clocks, std::nullopt);
}

}  // namespace unisono::server
