#include "server/store.hpp"

#include <cmath>
#include <random>

#include "expect.hpp"
#include "server/checksum.hpp"
#include "server/hash.hpp"
#include "server/rows.hpp"

namespace {

using namespace unisono;
using namespace unisono::server;

TableSpec dense(std::uint64_t elements, Consistency consistency, std::uint64_t bound = 0,
                Update update = Update::add) {
    TableSpec spec;
    spec.name.assign(1, 't');
    spec.extent = spec.whole = elements;
    spec.consistency = consistency;
    spec.bound = bound;
    spec.update = update;
    spec.rates = {0.1, 0.9, 0.999, 1e-8};
    return spec;
}

std::vector<std::byte> packed(const TableSpec& spec) {
    Packer packer;
    spec.pack(packer);
    return packer.bytes;
}

Header head(Kind kind, std::uint32_t worker, std::uint64_t sequence, std::uint64_t clock = 0) {
    Header result;
    result.kind = kind;
    result.worker = worker;
    result.incarnation = worker + 1;
    result.sequence = sequence;
    result.clock = clock;
    result.table = 7;
    return result;
}

Store store_of(std::uint32_t workers, const TableSpec& spec) {
    Store store(workers, {}, {});
    for (std::uint32_t worker = 0; worker < workers; ++worker) store.joined(worker, worker + 1);
    store.create(head(Kind::create, 0, 1), packed(spec));
    return store;
}

Bytes bytes(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

void prepare(Store& store, std::uint32_t worker, std::uint64_t sequence, std::uint64_t clock, float value) {
    Header request = head(Kind::prepare, worker, sequence, clock);
    request.count = 1;
    store.push(request, bytes({value}));
}

float first_value(Store& store) {
    Header request = head(Kind::pull, 0, 0);
    request.count = 1;
    std::vector<std::byte> out;
    store.table(7).content().read(request, {}, out);
    float value;
    std::memcpy(&value, out.data(), sizeof value);
    return value;
}

void test_rows_are_found_again_and_start_as_zero() {
    Rows rows(24);
    std::mt19937_64 random(1);
    std::map<std::int64_t, std::uint32_t> known;
    for (int i = 0; i < 50000; ++i) {
        const auto key = static_cast<std::int64_t>(random() % 20000) - 10000;
        const auto [index, added] = rows.insert(key);
        expect(added == !known.contains(key), "a row to be added once");
        if (added) {
            for (std::size_t b = 0; b < 24; ++b)
                expect(rows.row(index)[b] == std::byte{0}, "a new row to be zero");
            rows.row(index)[0] = std::byte{1};
            known[key] = index;
        }
        expect(known[key] == index && rows.key(index) == key, "the row of the key");
    }
    expect(rows.size() == known.size(), "as many rows as keys");
    expect(rows.find(123456789) == Rows::absent, "an unknown key to be absent");
}

void test_one_shard_more_takes_keys_and_moves_no_others() {
    for (std::uint32_t shards = 1; shards < 12; ++shards) {
        std::vector<int> counts(shards + 1);
        for (std::int64_t key = 0; key < 12000; ++key) {
            const auto before = shard_of(key, shards), after = shard_of(key, shards + 1);
            expect(after == before || after == shards, "a key to stay or to go to the new shard");
            ++counts[after];
        }
        for (const int count : counts)
            expect(std::abs(count - 12000 / static_cast<int>(shards + 1)) < 600,
                   "shards of about the same size");
    }
}

void test_the_checksum_is_that_of_the_standard() {
    const std::string text = "123456789";
    expect(checksum(std::as_bytes(std::span(text))) == 0xe3069283u, "the check value of CRC-32C");
}

void test_bsp_applies_a_clock_when_all_have_committed_it_in_rank_order() {
    Store store = store_of(3, dense(1, Consistency::bsp));
    prepare(store, 2, 1, 0, 1e8f);
    prepare(store, 0, 1, 0, 1.0f);
    prepare(store, 1, 1, 0, -1e8f);
    store.committed(2, 7, 1);
    store.committed(0, 7, 1);
    expect(first_value(store) == 0, "nothing before the last one");
    expect(!store.table(7).may_read(0, 1), "who is ahead to wait");
    store.committed(1, 7, 1);
    const float sum = (1.0f + -1e8f) + 1e8f;
    expect(first_value(store) == sum, "the sum in the order of the ranks");
    expect(store.table(7).may_read(0, 1), "reads to go on");
}

void test_a_read_has_at_most_bound_clocks_that_the_slowest_has_not_reached() {
    Store store = store_of(2, dense(1, Consistency::ssp, 2));
    for (std::uint64_t clock = 0; clock < 3; ++clock) {
        prepare(store, 0, clock + 1, clock, 1.0f);
        store.committed(0, 7, clock + 1);
    }
    expect(first_value(store) == 2, "two clocks of three: the slowest is at 0");
    expect(!store.table(7).may_read(0, 3) && store.table(7).may_read(1, 0),
           "the fast one to wait, not the slow one");
    store.committed(1, 7, 1);
    expect(first_value(store) == 3 && store.table(7).may_read(0, 3), "the third when the slowest has moved");
}

void test_what_a_dead_worker_had_not_committed_is_forgotten_and_nobody_waits_for_it() {
    Store store = store_of(2, dense(1, Consistency::bsp));
    prepare(store, 0, 1, 0, 1.0f);
    prepare(store, 1, 1, 0, 10.0f);
    store.committed(1, 7, 1);
    prepare(store, 1, 2, 1, 100.0f);
    store.ended(1);
    store.committed(0, 7, 1);
    expect(first_value(store) == 11, "its committed clock, and not the prepared one");
}

void test_a_push_is_applied_once() {
    Store store = store_of(1, dense(1, Consistency::asynchronous));
    Header request = head(Kind::push, 0, 5);
    request.count = 1;
    expect(store.push(request, bytes({1.0f})), "the first to count");
    expect(!store.push(request, bytes({1.0f})), "the same again not to count");
    request.sequence = 4;
    expect(!store.push(request, bytes({1.0f})), "an older one not to count");
    expect(first_value(store) == 1, "one");
}

template <class Error>
void expect_refusal(Store& store, Header request, Bytes payload, const char* what) {
    try {
        store.push(request, payload);
    } catch (const Error&) {
        return;
    }
    expect(false, what);
}

void test_requests_that_do_not_fit_are_refused_before_anything_changes() {
    Store store = store_of(1, dense(100000, Consistency::asynchronous));
    Header request = head(Kind::push, 0, 1);
    request.count = 1;
    expect_refusal<Malformed>(store, request, bytes({1.0f}), "less than a chunk to be refused");
    request.first = ~std::uint64_t{0};
    expect_refusal<Malformed>(store, request, bytes({1.0f}), "an element beyond the end to be refused");
    request.table = 8;
    expect_refusal<Refused>(store, request, bytes({1.0f}), "an unknown table to be refused");
    request = head(Kind::prepare, 0, 1);
    expect_refusal<Malformed>(store, request, {}, "a contribution to an asynchronous table to be refused");
    request.worker = 9;
    expect_refusal<Refused>(store, request, {}, "a stranger to be refused");
}

void test_a_table_beyond_the_quota_is_refused_before_it_is_allocated() {
    Quotas quotas;
    quotas.memory = 1 << 20;
    Store store(1, quotas, {});
    store.joined(0, 1);
    try {
        store.create(head(Kind::create, 0, 1), packed(dense(std::uint64_t{1} << 60, Consistency::bsp)));
    } catch (const Refused&) {
        return;
    }
    expect(false, "a refusal");
}

void test_adam_is_the_one_of_the_paper() {
    Store store = store_of(1, dense(1, Consistency::asynchronous, 0, Update::adam));
    float w = 0, m = 0, v = 0;
    for (std::uint64_t step = 1; step <= 20; ++step) {
        const float g = std::sin(static_cast<float>(step));
        Header request = head(Kind::push, 0, step);
        request.count = 1;
        store.push(request, bytes({g}));
        m = 0.9f * m + (1 - 0.9f) * g;
        v = 0.999f * v + (1 - 0.999f) * (g * g);
        const auto c1 = static_cast<float>(1 - std::pow(0.9, step)),
                   c2 = static_cast<float>(1 - std::pow(0.999, step));
        w -= 0.1f * (m / c1) / (std::sqrt(v / c2) + 1e-8f);
        expect(std::abs(first_value(store) - w) < 1e-6f, "Adam's step");
    }
}

void test_what_is_saved_is_loaded() {
    Store store = store_of(2, dense(1, Consistency::ssp, 3));
    prepare(store, 0, 1, 0, 2.5f);
    store.committed(0, 7, 1);
    Store other(2, {}, {});
    other.load(store.save());
    expect(first_value(other) == 2.5f, "the value");
    expect(other.table(7).clock_of(0) == 1 && other.table(7).clock_of(1) == 0, "the clocks");
}

}  // namespace

int main() {
    test_rows_are_found_again_and_start_as_zero();
    test_one_shard_more_takes_keys_and_moves_no_others();
    test_the_checksum_is_that_of_the_standard();
    test_bsp_applies_a_clock_when_all_have_committed_it_in_rank_order();
    test_a_read_has_at_most_bound_clocks_that_the_slowest_has_not_reached();
    test_what_a_dead_worker_had_not_committed_is_forgotten_and_nobody_waits_for_it();
    test_a_push_is_applied_once();
    test_requests_that_do_not_fit_are_refused_before_anything_changes();
    test_a_table_beyond_the_quota_is_refused_before_it_is_allocated();
    test_adam_is_the_one_of_the_paper();
    test_what_is_saved_is_loaded();
}
