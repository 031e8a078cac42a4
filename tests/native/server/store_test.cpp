#include "server/store.hpp"

#include <cmath>
#include <functional>
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
    store.made(7);
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

void load(Store& store, Bytes saved) {
    store.stage(saved);
    store.load_staged();
}

template <class Error>
void expect_refusal(Store& store, Header request, Bytes payload, const char* what) {
    try {
        store.replay(request, payload);
    } catch (const Error&) {
        return;
    }
    expect(false, what);
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

/// Whatever the keys are, a map is what they are compared with.
void test_rows_are_those_of_a_map(std::size_t row_bytes, const char* what,
                                  const std::function<std::int64_t(std::uint64_t, std::mt19937_64&)>& draw) {
    Rows rows(row_bytes);
    std::mt19937_64 random(row_bytes);
    std::map<std::int64_t, std::byte> known;
    for (int life = 0; life < 2; ++life) {
        for (std::uint64_t batch = 0; batch < 60; ++batch) {
            std::vector<std::int64_t> keys(random() % 700);
            for (auto& key : keys) key = draw(batch, random);
            const std::size_t expected = rows.memory() + rows.memory_of_more(keys.size());
            const auto value = static_cast<std::byte>(batch + 1);
            rows.insert(keys, [&](std::size_t i, std::byte* row, bool added) {
                expect(added == !known.contains(keys[i]), what);
                for (std::size_t b = 0; added && b < row_bytes; ++b) expect(row[b] == std::byte{0}, what);
                if (row_bytes > 0) row[row_bytes - 1] = value;
                known[keys[i]] = value;
            });
            expect(rows.memory() <= expected, "no more memory than was said");
            for (const std::int64_t key : keys) {
                const std::uint32_t index = rows.find(key);
                expect(index != Rows::absent && rows.key(index) == key, what);
                expect(row_bytes == 0 || rows.row(index)[row_bytes - 1] == known[key], what);
            }
            for (int i = 0; i < 100; ++i) {
                const std::int64_t key = i % 2 ? draw(batch, random) : static_cast<std::int64_t>(random());
                expect((rows.find(key) != Rows::absent) == known.contains(key), what);
                expect(!rows.insert(keys.empty() ? key : keys[0]).added || keys.empty(), what);
                if (keys.empty()) known.try_emplace(key, std::byte{0});
            }
        }
        expect(rows.size() == known.size(), "as many rows as keys");
        rows.find(rows.keys(), [&](std::size_t i, std::uint32_t index) { expect(index == i, what); });
        expect(rows.memory() <= known.size() * (2 * row_bytes + 150) + (std::size_t{5} << 20),
               "few bytes for each");
        rows.clear();
        known.clear();
        expect(rows.size() == 0 && rows.find(0) == Rows::absent && rows.find(77) == Rows::absent, "none");
    }
}

void test_rows_of_all_kinds_of_keys() {
    using Random = std::mt19937_64;
    const auto signed_of = [](std::uint64_t bits) { return static_cast<std::int64_t>(bits); };
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{72}, std::size_t{40'000}}) {
        test_rows_are_those_of_a_map(bytes, "dense keys", [&](std::uint64_t batch, Random& random) {
            return signed_of(random() % (300 * (batch + 1)));  // of a range that grows
        });
        if (bytes == 40'000) continue;
        test_rows_are_those_of_a_map(bytes, "sparse keys", [&](std::uint64_t, Random& random) {
            return signed_of(random() % 100'000'000);
        });
        test_rows_are_those_of_a_map(bytes, "huge and negative keys", [&](std::uint64_t, Random& random) {
            return signed_of(random() | std::uint64_t{random() % 2} << 63);
        });
        test_rows_are_those_of_a_map(bytes, "keys of every size", [&](std::uint64_t, Random& random) {
            const std::uint64_t key = random() >> random() % 64;
            return signed_of(random() % 3 ? key : ~key);
        });
        test_rows_are_those_of_a_map(bytes, "keys that become dense",
                                     [&](std::uint64_t batch, Random& random) {
                                         return signed_of(batch < 20 ? random() >> 30 : random() % 20'000);
                                     });
    }
}

/// A row of 65536 floats was charged with 4095 others.
void test_wide_rows_are_charged_one_by_one() {
    Rows rows(262'144);
    rows.insert(5);
    expect(rows.memory() < 300'000, "room for one row");
    for (std::int64_t key = 0; key < 7; ++key) rows.insert(key);
    expect(rows.memory() < 7 * 300'000, "room for seven");
}

void test_rows_stay_within_the_quota_and_those_that_are_there_can_be_pushed_to() {
    Quotas quotas;
    quotas.memory = 2'000'000;
    Store store(1, quotas, {});
    store.joined(0, 1);
    TableSpec spec = dense(64, Consistency::asynchronous, 0, Update::adam);
    spec.layout = Layout::sparse;
    store.create(head(Kind::create, 0, 1), packed(spec));
    std::uint64_t sequence = 1;
    const auto push = [&](std::int64_t first) {
        std::vector<std::int64_t> row(100 * 33);  // keys, and twice as many floats as would fit into them
        for (std::int64_t i = 0; i < 100; ++i) row[static_cast<std::size_t>(i)] = first + i;
        Header request = head(Kind::push, 0, ++sequence);
        request.count = 100;
        store.push(request, std::as_bytes(std::span(row)));
    };
    bool refused = false;
    for (std::int64_t first = 0; !refused; first += 100) {
        expect(first < 100'000, "a refusal");
        try {
            push(first);
        } catch (const Refused&) {
            refused = true;
        }
        expect(store.table(7).memory() <= quotas.memory, "no more than the quota");
    }
    expect(store.table(7).memory() > quotas.memory / 2, "most of the quota to be of use");
    push(0);
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

void test_what_is_withdrawn_is_not_committed() {
    Store store = store_of(1, dense(1, Consistency::bsp));
    prepare(store, 0, 1, 0, 1.0f);
    const Header withdrawn = head(Kind::withdraw, 0, 2, 0);
    expect(store.push(withdrawn, {}), "it to count");
    prepare(store, 0, 3, 0, 10.0f);
    expect(!store.push(withdrawn, {}), "the same again not to count");
    store.committed(0, 7, 1);
    expect(first_value(store) == 10, "what was prepared after it");
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

void test_every_incarnation_has_its_own_sequences() {
    Store store = store_of(1, dense(1, Consistency::asynchronous));
    Header request = head(Kind::push, 0, 5);
    request.count = 1;
    store.push(request, bytes({1.0f}));
    store.ended(0);
    store.joined(0, 77);
    expect_refusal<Refused>(store, request, bytes({1.0f}), "a push of who has ended to be refused");
    request.incarnation = 77;
    request.sequence = 1;
    expect(store.push(request, bytes({1.0f})), "the first of the next incarnation to count");
    expect(!store.push(request, bytes({1.0f})), "and to count once");
    expect(first_value(store) == 2, "two");
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

void test_what_is_held_counts_and_is_refused_before_it_is_allocated() {
    Quotas quotas;
    quotas.memory = 5000;
    quotas.tables = 2;
    Store store(1, quotas, {});
    store.joined(0, 1);
    store.create(head(Kind::create, 0, 1), packed(dense(500, Consistency::ssp, 100)));  // 2000 bytes
    const std::vector<float> ones(500, 1.0f);
    Header request = head(Kind::prepare, 0, 1);
    request.count = 500;
    store.push(request, bytes(ones));
    store.push((request.sequence = 2, request), bytes(ones));  // of the same clock: it is added up
    request.sequence = 3;
    request.clock = 1;
    expect_refusal<Refused>(store, request, bytes(ones), "a third of 2000 bytes in 5000 to be refused");
    TableSpec rows = dense(1, Consistency::asynchronous);
    rows.layout = Layout::sparse;
    rows.name.assign(1, 'r');
    Header create = head(Kind::create, 0, 1);
    create.table = 8;
    expect_refusal<Malformed>(store, create, {}, "no description to be refused");
    store.create(create, packed(rows));
    create.table = 9;
    expect_refusal<Refused>(store, create, packed(rows), "a third table to be refused");
    request = head(Kind::push, 0, 4);
    request.table = 8;
    request.count = 1;
    const std::vector<std::int32_t> row(3);
    expect_refusal<Refused>(store, request, std::as_bytes(std::span(row)),
                            "rows beyond the quota to be refused");
}

void test_a_table_is_gone_when_the_last_who_tries_to_make_it_gives_up() {
    Store store(2, {}, {});
    const auto spec = packed(dense(1, Consistency::ssp, 3));
    for (std::uint32_t worker = 0; worker < 2; ++worker) {
        store.joined(worker, worker + 1);
        store.create(head(Kind::create, worker, 1), spec);
    }
    Store none(2, {}, {});
    load(none, store.save());
    expect(none.tables().empty(), "a table that is not made in no snapshot");
    expect(!store.abandon(0, 7) && store.find(7) != nullptr, "it to stay for the other");
    expect(!store.abandon(0, 7) && store.find(7) != nullptr, "it to stay, also if it is told twice");
    expect(store.abandon_all(1) == std::vector<std::uint32_t>{7} && store.find(7) == nullptr,
           "it to be gone");
    store.create(head(Kind::create, 0, 2), packed(dense(2, Consistency::asynchronous)));
    store.made(7);
    expect(!store.abandon(0, 7) && store.abandon_all(0).empty() && store.is_made(7),
           "what is made to stay, as another one");
}

void test_a_bound_that_would_overflow_is_refused() {
    Store store(1, {}, {});
    expect_refusal<Refused>(store, head(Kind::create, 0, 1),
                            packed(dense(1, Consistency::ssp, ~std::uint64_t{0})),
                            "a bound without end to be refused");
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
    load(other, store.save());
    expect(first_value(other) == 2.5f, "the value");
    expect(other.table(7).clock_of(0) == 1 && other.table(7).clock_of(1) == 0, "the clocks");
}

void test_who_was_not_there_when_it_was_saved_begins_at_the_slowest() {
    Store store = store_of(2, dense(1, Consistency::ssp, 3));
    for (const auto& [worker, clock] : {std::pair{0u, 1u}, {0u, 2u}, {0u, 3u}, {1u, 1u}, {1u, 2u}})
        store.committed(worker, 7, clock);
    Store other(4, {}, {});
    load(other, store.save());
    const auto& clocks = other.table(7).clocks();
    expect(clocks == std::map<std::uint32_t, std::uint64_t>{{0, 3}, {1, 2}, {2, 2}, {3, 2}}, "their clocks");
    expect(other.table(7).slowest() == 2, "the slowest");
    other.joined(9, 1);
    expect(other.table(7).clock_of(9) == 2, "who joins later to begin there, too");
}

void test_what_is_not_loaded_in_the_end_leaves_nothing() {
    Store store = store_of(1, dense(1, Consistency::asynchronous));
    Header request = head(Kind::push, 0, 5);
    request.count = 1;
    store.push(request, bytes({1.0f}));
    Store other(1, {}, {});
    other.stage(store.save());
    expect_refusal<Refused>(other, head(Kind::create, 0, 1), packed(dense(1, Consistency::asynchronous)),
                            "a table that is made meanwhile to be refused");
    other.forget_staged();
    other.create(head(Kind::create, 0, 1), packed(dense(1, Consistency::asynchronous)));
    expect(first_value(other) == 0, "a new table");
    try {
        other.stage(store.save());
    } catch (const Refused&) {
        return;
    }
    expect(false, "a refusal where there are tables");
}

/// The same values from every worker, in parts that come in any order.
void test_a_table_has_its_first_values_when_a_worker_has_given_all_of_them() {
    constexpr std::size_t elements = 600'000;
    TableSpec spec = dense(elements, Consistency::asynchronous);
    spec.init = Init::given;
    const std::vector<float> values(elements, 2.5f);
    const Bytes all = std::as_bytes(std::span(values));
    Store store(2, {}, {});
    for (std::uint32_t worker : {0u, 1u}) store.joined(worker, worker + 1);
    const auto give = [&](std::uint32_t worker, std::size_t first) {
        Packer packer;
        spec.pack(packer);
        packer.put(all.subspan(first, std::min(given_bytes, all.size() - first)));
        Header request = head(Kind::create, worker, 1);
        request.first = first;
        return store.create(request, packer.bytes).content().complete();
    };
    expect(!give(0, 0) && !give(1, given_bytes) && !give(1, 0), "more to be missing");
    Store none(2, {}, {});
    load(none, store.save());
    expect(none.tables().empty(), "a table that nobody can use yet not to be saved");
    expect(give(1, 2 * given_bytes), "all of them");
    Header push = head(Kind::push, 1, 2);
    push.count = elements % spec.chunk();
    push.first = elements - push.count;
    const std::vector<float> ones(push.count, 1.0f);
    store.push(push, std::as_bytes(std::span(ones)));
    expect(give(0, 2 * given_bytes), "what is given again to be taken");
    std::vector<std::byte> last;
    store.table(7).content().read(push, {}, last);
    expect(*reinterpret_cast<const float*>(last.data()) == 3.5f, "and to change nothing");
    Header strange = head(Kind::create, 0, 3);
    strange.first = given_bytes + 1;
    expect_refusal<Malformed>(store, strange, packed(spec), "a part that is none");
}

void test_rows_that_are_only_read_take_no_room() {
    TableSpec spec = dense(4, Consistency::asynchronous);
    spec.layout = Layout::sparse;
    Store store = store_of(1, spec);
    const std::size_t before = store.table(7).memory();
    std::vector<std::int64_t> keys(10'000);
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::int64_t>(i);
    Header pull = head(Kind::pull, 0, 2);
    pull.count = keys.size();
    std::vector<std::byte> values;
    store.table(7).content().read(pull, std::as_bytes(std::span(keys)), values);
    expect(values.size() == keys.size() * 16, "all rows");
    expect(store.table(7).memory() == before, "no row to be kept");
}

}  // namespace

int main() {
    test_rows_are_found_again_and_start_as_zero();
    test_rows_of_all_kinds_of_keys();
    test_wide_rows_are_charged_one_by_one();
    test_rows_stay_within_the_quota_and_those_that_are_there_can_be_pushed_to();
    test_one_shard_more_takes_keys_and_moves_no_others();
    test_the_checksum_is_that_of_the_standard();
    test_bsp_applies_a_clock_when_all_have_committed_it_in_rank_order();
    test_a_read_has_at_most_bound_clocks_that_the_slowest_has_not_reached();
    test_what_a_dead_worker_had_not_committed_is_forgotten_and_nobody_waits_for_it();
    test_what_is_withdrawn_is_not_committed();
    test_a_push_is_applied_once();
    test_every_incarnation_has_its_own_sequences();
    test_requests_that_do_not_fit_are_refused_before_anything_changes();
    test_a_table_beyond_the_quota_is_refused_before_it_is_allocated();
    test_what_is_held_counts_and_is_refused_before_it_is_allocated();
    test_a_table_is_gone_when_the_last_who_tries_to_make_it_gives_up();
    test_a_bound_that_would_overflow_is_refused();
    test_adam_is_the_one_of_the_paper();
    test_what_is_saved_is_loaded();
    test_who_was_not_there_when_it_was_saved_begins_at_the_slowest();
    test_what_is_not_loaded_in_the_end_leaves_nothing();
    test_a_table_has_its_first_values_when_a_worker_has_given_all_of_them();
    test_rows_that_are_only_read_take_no_room();
}
