#include <algorithm>
#include <cstring>

#include "server/client_table.hpp"
#include "server/hash.hpp"

namespace unisono::server {

namespace {

/// Small enough that a server applies some rows while the next ones travel; the first of them smaller, as it
/// has nothing to do until then.
constexpr std::size_t pushed_together = 96 << 10;
constexpr std::size_t pushed_first = 12 << 10;
constexpr std::size_t pulled_together = most_payload / 4;

}  // namespace

ClientSparse::ClientSparse(Client& client, TableSpec spec, std::uint32_t number)
    : ClientTable(client, std::move(spec), number),
      width_(spec_.extent * spec_.value_bytes()),
      pending_(width_),
      cache_((width_ + 7) / 8 * 8 + sizeof(std::uint64_t)),
      floors_(client.shards()) {}

std::uint64_t& ClientSparse::clock_in(std::byte* row) const {
    return *reinterpret_cast<std::uint64_t*>(row + (width_ + 7) / 8 * 8);
}

std::size_t ClientSparse::rows_at_once(std::size_t bytes) const {
    return std::max<std::size_t>(1, bytes / (sizeof(std::int64_t) + width_));
}

OperationPtr ClientSparse::push(std::span<const std::int64_t> keys, Bytes rows) {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    push(operation, keys, rows);
    return operation;
}

OperationPtr ClientSparse::pull(std::span<const std::int64_t> keys, std::span<std::byte> out,
                                bool with_info) {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    pull(operation, keys, out.empty() ? nullptr : out.data(), with_info);
    return operation;
}

OperationPtr ClientSparse::push_pull(std::span<const std::int64_t> keys, Bytes rows,
                                     std::span<std::byte> out) {
    const std::lock_guard lock(client_.mutex());
    auto operation = std::make_shared<Operation>();
    push(operation, keys, rows);
    pull(operation, keys, out.data(), false);
    return operation;
}

void ClientSparse::push(const OperationPtr& operation, std::span<const std::int64_t> keys, Bytes rows) {
    if (!spec_.clocked()) return push_at_once(operation, keys, rows);
    if (committing_)
        throw Refused("table '" + spec_.name + "' is in a clock() that did not end: call it again first");
    pending_.insert(keys, [&](std::size_t i, std::byte* row, bool added) {
        if (added)
            std::memcpy(row, rows.data() + i * width_, width_);
        else
            accumulate(spec_, row, rows.data() + i * width_, spec_.extent);
    });
}

void ClientSparse::push_at_once(const OperationPtr& operation, std::span<const std::int64_t> keys,
                                Bytes rows) {
    // Updates that keep no state come to the same whether rows are added up before or after.
    const bool repeated = !keeps_no_state(spec_) && repeats_.find(keys);
    if (!repeated && client_.shards() == 1 && spec_.wire == spec_.dtype)
        return send_slices(operation, keys, rows);
    if (repeated) {
        merged_.assign(rows.begin(), rows.end());
        for (std::size_t i = 0; i < keys.size(); ++i)
            if (const std::size_t first = repeats_.first(i); first != i)
                accumulate(spec_, merged_.data() + first * width_, rows.data() + i * width_, spec_.extent);
        rows = merged_;
    }
    std::vector<Batch> batches(client_.shards());
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (repeated && repeats_.first(i) != i) continue;
        const std::uint32_t shard = shard_of(keys[i], client_.shards());
        add(batches[shard], keys[i], rows.data() + i * width_);
        if (batches[shard].keys.size() == rows_at_once(pushed_together))
            send_batch(Kind::push, operation, shard, batches[shard]);
    }
    for (std::uint32_t shard = 0; shard < client_.shards(); ++shard)
        send_batch(Kind::push, operation, shard, batches[shard]);
}

/// From where they are.
void ClientSparse::send_slices(const OperationPtr& operation, std::span<const std::int64_t> keys,
                               Bytes rows) {
    std::size_t bytes_at_once = pushed_first;
    for (std::size_t done = 0, count = 0; done < keys.size(); done += count) {
        count = std::min(rows_at_once(bytes_at_once), keys.size() - done);
        bytes_at_once = std::min(3 * bytes_at_once, pushed_together);
        const auto some = keys.subspan(done, count);
        Client::Request request{head(Kind::push), {}, {}, operation, {}, {}};
        request.head.count = some.size();
        const Bytes bytes = std::as_bytes(some);
        request.owned.assign(bytes.begin(), bytes.end());
        request.lent = rows.subspan(done * width_, some.size() * width_);
        client_.issue(0, std::move(request));
    }
}

void ClientSparse::add(Batch& batch, std::int64_t key, const std::byte* row) const {
    const std::size_t each = spec_.extent * size_of(spec_.wire);
    const std::size_t most = rows_at_once(pushed_together);
    if (batch.keys.empty()) {
        batch.keys.reserve(most);
        batch.rows.resize(most * each);
    }
    convert(spec_.dtype, row, spec_.wire, batch.rows.data() + batch.keys.size() * each, spec_.extent);
    batch.keys.push_back(key);
}

void ClientSparse::send_batch(Kind kind, const OperationPtr& operation, std::uint32_t shard, Batch& batch) {
    if (batch.keys.empty()) return;
    Client::Request request{head(kind), {}, {}, operation, {}, {}};
    request.head.count = batch.keys.size();
    const Bytes keys = std::as_bytes(std::span(batch.keys));
    request.owned.assign(keys.begin(), keys.end());
    request.kept = std::move(batch.rows);
    request.lent = Bytes(request.kept).first(batch.keys.size() * spec_.extent * size_of(spec_.wire));
    client_.issue(shard, std::move(request));
    batch = {};
}

void ClientSparse::pull(const OperationPtr& operation, std::span<const std::int64_t> keys, std::byte* to,
                        bool with_info) {
    std::vector<Batch> batches(client_.shards());
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
        const std::uint32_t shard = shard_of(keys[i], client_.shards());
        ++operation->read.parts;
        if (!with_info && serve(keys[i], shard, to ? to + i * width_ : nullptr, *operation)) continue;
        Batch& batch = batches[shard];
        note_own(batch, keys[i]);
        batch.keys.push_back(keys[i]);
        batch.origins.push_back(i);
        if (batch.keys.size() == rows_at_once(pulled_together))
            issue_pull(operation, shard, std::exchange(batch, {}), to, with_info);
    }
    for (std::uint32_t shard = 0; shard < client_.shards(); ++shard)
        if (!batches[shard].keys.empty())
            issue_pull(operation, shard, std::move(batches[shard]), to, with_info);
}

bool ClientSparse::serve(std::int64_t key, std::uint32_t shard, std::byte* out, Operation& operation) {
    if (!caches()) return false;
    const std::uint32_t index = cache_.find(key);
    if (index == Rows::absent) return false;
    std::byte* row = cache_.row(index);
    const std::uint64_t known = clock_in(row);  // one more than the clock; 0: not valid
    if (known == 0) return false;
    const std::uint64_t clock = std::max(known - 1, floors_[shard]);
    if (!fresh(clock)) return false;
    ++operation.read.cached;
    note(operation, clock, clock_);
    if (!out) return true;
    std::memcpy(out, row, width_);
    if (const auto own = pending_.find(key); own != Rows::absent && linear())
        show(out, pending_.row(own), spec_.extent);
    return true;
}

void ClientSparse::issue_pull(const OperationPtr& operation, std::uint32_t shard, Batch batch, std::byte* out,
                              bool with_info) {
    Client::Request request{head(Kind::pull), {}, {}, operation, {}, {}};
    request.head.flags = with_info ? with_clocks : 0;
    request.head.count = batch.keys.size();
    const Bytes keys = std::as_bytes(std::span(batch.keys));
    request.owned.assign(keys.begin(), keys.end());
    request.arrived = [this, batch = std::move(batch), asked_at = clock_, out, operation](const Header& reply,
                                                                                          Bytes payload) {
        arrive(reply, open(reply, payload, asked_at, *operation), batch, asked_at, out);
    };
    client_.issue(shard, std::move(request));
}

void ClientSparse::arrive(const Header& reply, Bytes values, const Batch& batch, std::uint64_t asked_at,
                          std::byte* out) {
    const std::size_t each = spec_.extent * size_of(spec_.wire);
    if (values.size() != batch.keys.size() * each) throw Malformed("rows that were not asked for");
    std::vector<std::byte> row(width_);
    for (std::size_t i = 0; i < batch.keys.size(); ++i) {
        convert(spec_.wire, values.data() + i * each, spec_.dtype, row.data(), spec_.extent);
        if (caches() && asked_at == clock_) store(batch.keys[i], row.data(), reply.clock);
        if (!out) continue;
        std::byte* to = out + batch.origins[i] * width_;
        std::memcpy(to, row.data(), width_);
    }
    for (std::size_t i = 0; out && i < batch.pushed.size(); ++i)
        show(out + batch.origins[batch.pushed[i]] * width_, batch.own.data() + i * width_, spec_.extent);
}

/// What this worker has pushed to a row, as of now, is shown with it when it comes.
void ClientSparse::note_own(Batch& batch, std::int64_t key) const {
    const auto own = linear() ? pending_.find(key) : Rows::absent;
    if (own == Rows::absent) return;
    batch.pushed.push_back(static_cast<std::uint32_t>(batch.keys.size()));
    batch.own.insert(batch.own.end(), pending_.row(own), pending_.row(own) + width_);
}

void ClientSparse::store(std::int64_t key, const std::byte* values, std::uint64_t clock) {
    std::byte* row = cache_.row(cache_.insert(key).index);
    std::memcpy(row, values, width_);
    clock_in(row) = clock + 1;
}

void ClientSparse::store_eager(std::uint32_t shard, const Header& head, Bytes payload) {
    const std::size_t each = spec_.extent * size_of(spec_.wire);
    if (head.count > most_payload || payload.size() != head.count * (sizeof(std::int64_t) + each))
        throw Malformed("an eager push of another length than it says");
    std::vector<std::byte> row(width_);
    for (std::size_t i = 0; i < head.count; ++i) {
        std::int64_t key;
        std::memcpy(&key, payload.data() + i * sizeof key, sizeof key);
        if (head.sequence < clock_) {  // without clocks of our own: it is not the row that we know any more
            if (const auto index = cache_.find(key); index != Rows::absent) clock_in(cache_.row(index)) = 0;
            continue;
        }
        convert(spec_.wire, payload.data() + head.count * sizeof key + i * each, spec_.dtype, row.data(),
                spec_.extent);
        store(key, row.data(), head.clock);
    }
    if (head.first) floors_[shard] = std::max(floors_[shard], head.clock);
}

/// Subscriptions are the connection's: rows of the last one are told no news by this one.
void ClientSparse::forget_subscriptions(std::uint32_t shard) {
    if (spec_.consistency != Consistency::essp) return;
    floors_[shard] = 0;
    for (std::uint32_t i = 0; i < cache_.size(); ++i)
        if (shard_of(cache_.key(i), client_.shards()) == shard) clock_in(cache_.row(i)) = 0;
}

void ClientSparse::send_pending(const OperationPtr& operation) {
    std::vector<Batch> batches(client_.shards());
    for (std::uint32_t i = 0; i < pending_.size(); ++i) {
        const std::uint32_t shard = shard_of(pending_.key(i), client_.shards());
        add(batches[shard], pending_.key(i), pending_.row(i));
        if (batches[shard].keys.size() == rows_at_once(pushed_together))
            send_batch(Kind::prepare, operation, shard, batches[shard]);
    }
    for (std::uint32_t shard = 0; shard < client_.shards(); ++shard)
        send_batch(Kind::prepare, operation, shard, batches[shard]);
}

void ClientSparse::absorb_pending() {
    for (std::uint32_t i = 0; i < pending_.size(); ++i) {
        const auto index = cache_.find(pending_.key(i));
        if (index == Rows::absent) continue;
        if (linear())
            show(cache_.row(index), pending_.row(i), spec_.extent);
        else
            clock_in(cache_.row(index)) = 0;
    }
    pending_.clear();
}

}  // namespace unisono::server
