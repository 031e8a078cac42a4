#include "server/server.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <random>

#include "expect.hpp"
#include "server/client_table.hpp"

namespace {

using namespace unisono;
using namespace unisono::server;
using namespace std::chrono_literals;

std::pair<Fd, Fd> pair_of_sockets() {
    int ends[2];
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    return {Fd(ends[0]), Fd(ends[1])};
}

ServerOptions options(std::uint32_t threads, std::uint32_t workers) {
    ServerOptions result;
    result.threads = threads;
    result.shards.workers = workers;
    result.shards.grace = 50ms;
    return result;
}

void join(Server& server, Client& client, std::uint32_t shard) {
    auto [theirs, ours] = pair_of_sockets();
    if ((client.worker() + shard) % 2 == 0) {
        server.adopt_worker(Connection(std::move(theirs)), client.worker(), shard);
        client.attach(shard, Connection(std::move(ours)));
        return;
    }
    const auto lane = std::make_shared<Inbox>(Inbox::create(SocketRingLink::sizes(Connection::ring_bytes)));
    server.adopt_worker({std::move(theirs), lane, 1}, client.worker(), shard);
    client.attach(shard, {std::move(ours), lane, 0});
}

void wait(Client& client, const OperationPtr& operation) {
    expect(client.wait(*operation, Time::now() + 20s, [] {}) == Client::Progress::done, "an answer");
    expect(!operation->failed, operation->text.c_str());
}

TableSpec spec(std::uint64_t elements, Consistency consistency, std::uint64_t bound) {
    TableSpec result;
    result.name.assign(1, 't');
    result.extent = result.whole = elements;
    result.consistency = consistency;
    result.bound = bound;
    return result;
}

void commit(Client& client, ClientTable& table) {
    wait(client, table.prepare());
    wait(client, table.commit());
    table.committed();
}

void work(Server& server, std::uint32_t number, std::uint32_t threads, Consistency consistency,
          std::uint64_t bound, std::vector<float>& last) {
    constexpr std::uint64_t elements = 200000;
    Client client(number, number + 1, threads);
    for (std::uint32_t shard = 0; shard < threads; ++shard) join(server, client, shard);
    ClientDense table(client, spec(elements, consistency, bound), 3);
    client.set_eager([&](std::uint32_t shard, const Header& head, Bytes payload) {
        table.take_eager(shard, head, payload);
    });
    const auto created = table.create({});
    wait(client, created);
    table.created(*created);
    std::vector<float> ones(elements, 1.0f), out(elements);
    for (std::uint64_t clock = 0; clock < 10; ++clock) {
        const auto operation = table.pull(std::as_writable_bytes(std::span(out)), false);
        wait(client, operation);
        expect(operation->read.staleness <= bound, "a read within the bound");
        expect(out[0] >= static_cast<float>(clock), "a worker to read its own clocks");
        table.push(std::as_bytes(std::span(ones)));
        commit(client, table);
        if (clock % 4 == 2)
            join(server, client, static_cast<std::uint32_t>(clock) % threads);  // as if it had broken
    }
    last.resize(elements);
    while (*std::ranges::min_element(last) < 30) {  // shards hear of a commit at different times
        const auto operation = table.pull(std::as_writable_bytes(std::span(last)), true);
        wait(client, operation);
    }
}

/// Three workers and two shards, all of them threads.
void test_workers_agree(Consistency consistency, std::uint64_t bound) {
    ServerOptions patient = options(2, 3);
    patient.shards.grace = 10s;  // nobody is given up here, however slow the machine is
    Server server(patient);
    std::vector<std::vector<float>> last(3);
    std::vector<std::thread> workers;
    for (std::uint32_t number = 0; number < 3; ++number)
        workers.emplace_back([&, number] { work(server, number, 2, consistency, bound, last[number]); });
    for (std::thread& worker : workers) worker.join();
    for (const auto& values : last)
        for (const float value : values) expect(value == 30, "thirty clocks in each element");
    expect(!server.failure(), "no failure");
    server.close();
}

void test_nonsense_ends_a_connection_and_nothing_else() {
    Server server(options(1, 1));
    std::minstd_rand engine(7);
    const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
    for (int i = 0; i < 200; ++i) {
        auto [theirs, ours] = pair_of_sockets();
        server.adopt_worker(Connection(std::move(theirs)), 0, 0);
        Header head;
        head.kind = static_cast<Kind>(random() % 80);
        head.worker = random() % 2;
        head.incarnation = random() % 3;
        head.sequence = random();
        head.table = random() % 5;
        head.count = random();
        head.length = random() % 3 ? random() % 200 : static_cast<std::uint32_t>(random());
        if (random() % 4) head = sealed(head);
        std::vector<std::byte> bytes(300);
        for (auto& byte : bytes) byte = static_cast<std::byte>(random());
        std::memcpy(bytes.data(), &head, sizeof head);
        ::send(ours.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
    Client client(0, 99, 1);
    join(server, client, 0);
    ClientDense table(client, spec(10, Consistency::asynchronous, 0), 3);
    const auto created = table.create({});
    for (int i = 0; i < 100; ++i) {  // an attacker may have been let in as this worker: until it is given up
        if (client.wait(*created, Time::now() + 5s, [] {}) != Client::Progress::broken) break;
        std::this_thread::sleep_for(20ms);
        join(server, client, 0);
    }
    expect(!server.failure(), server.failure().value_or("").c_str());
}

/// One frame of odd length made all that came after it be copied.
void test_values_are_used_from_where_they_lie_whatever_came_before() {
    const auto lane = std::make_shared<Inbox>(Inbox::create(SocketRingLink::sizes(Connection::ring_bytes)));
    auto [ours, theirs] = pair_of_sockets();
    Connection worker(std::move(ours), lane, 0), shard(std::move(theirs), lane, 1);
    const auto ring = lane->ring(0).bytes;
    for (std::size_t odd = 0; odd < 20; ++odd) {
        Header create, push;
        create.kind = Kind::create;
        push.kind = Kind::push;
        const std::vector<std::byte> name(odd, std::byte{1}), values(808 + odd, std::byte{2});
        worker.send(create, Bytes(name));
        worker.send_in_two(push, Bytes(values).first(odd), Bytes(values).subspan(odd));
        expect(worker.flush() && worker.waiting() == 0, "all to go");
        Header head;
        Bytes payload;
        expect(shard.next(head, payload) && std::ranges::equal(payload, name), "the first frame");
        expect(shard.next(head, payload) && std::ranges::equal(payload, values), "the second");
        expect(payload.data() >= ring.data() && payload.data() < ring.data() + ring.size(), "not a copy");
        expect(reinterpret_cast<std::uintptr_t>(payload.data()) % alignof(std::int64_t) == 0, "keys in it");
        expect(!shard.next(head, payload), "nothing more");
    }
}

/// Whoever lent memory may use it again, and what had been sent of it goes on.
void test_what_was_lent_is_kept_when_its_owner_wants_it_back() {
    auto [ours, theirs] = pair_of_sockets();
    Connection worker(std::move(ours)), shard(std::move(theirs));
    std::vector<std::byte> values(4'000'000, std::byte{7});
    Header push;
    push.kind = Kind::push;
    worker.lend(push, values);
    expect(!worker.flush(), "more than goes at once");
    worker.keep_lent();
    std::ranges::fill(values, std::byte{9});
    Header head;
    Bytes payload;
    while (!shard.next(head, payload)) worker.flush();
    expect(std::ranges::all_of(payload, [](std::byte byte) { return byte == std::byte{7}; }), "as it was");
}

/// A worker of which only the frames are ours.
class Raw {
  public:
    Raw(Server& server, std::uint32_t worker) : worker_(worker), connection_(made(server, worker)) {
        send(Kind::hello);
        take(Kind::welcome);
    }

    void send(Kind kind, Header head = {}, Bytes payload = {}) {
        head.kind = kind;
        head.worker = worker_;
        head.incarnation = worker_ + 1;
        head.table = 3;
        head.sequence = kind == Kind::hello ? 0 : ++sequence_;
        connection_.send(head, payload);
    }
    void create(const TableSpec& table) {
        Packer packer;
        table.pack(packer);
        send(Kind::create, {}, packer.bytes);
        take(Kind::done);
    }
    void take(Kind kind) { expect(take() == kind, "an answer of this kind"); }
    Kind take() {
        Header head;
        Bytes payload;
        const auto until = Time::now() + 20s;
        while (connection_.flush(), !connection_.next(head, payload)) {
            expect(Time::now() < until, "an answer");
            std::this_thread::yield();
        }
        return head.kind;
    }
    /// Bytes that the server does not take, for as long as this.
    std::size_t left_after(std::chrono::milliseconds time) {
        for (const auto until = Time::now() + time; Time::now() < until; std::this_thread::sleep_for(1ms))
            connection_.flush();
        return connection_.waiting();
    }

  private:
    static Connection made(Server& server, std::uint32_t worker) {
        auto [theirs, ours] = pair_of_sockets();
        server.adopt_worker(Connection(std::move(theirs)), worker, 0);
        return Connection(std::move(ours));
    }
    std::uint32_t worker_;
    std::uint64_t sequence_ = 0;
    Connection connection_;
};

void test_who_takes_no_answers_is_not_listened_to() {
    Server server(options(1, 2));
    const TableSpec table = spec(4096, Consistency::ssp, 4);  // 16 KiB
    Raw greedy(server, 0), modest(server, 1);
    greedy.create(table);
    modest.create(table);
    constexpr int pulls = 20000;  // 320 MB of answers
    Header pull;
    pull.count = 4096;
    for (int i = 0; i < pulls; ++i) greedy.send(Kind::pull, pull);
    expect(greedy.left_after(300ms) > 500'000, "most of its requests to stay with it");
    modest.send(Kind::pull, pull);
    modest.take(Kind::values);
    for (int i = 0; i < pulls; ++i) greedy.take(Kind::values);
}

void test_requests_that_wait_for_others_are_bounded() {
    Server server(options(1, 2));
    TableSpec table = spec(0, Consistency::bsp, 0);
    table.layout = Layout::sparse;
    table.extent = 1;
    Raw greedy(server, 0), slow(server, 1);
    greedy.create(table);
    slow.create(table);
    Header next;
    next.clock = 1;
    greedy.send(Kind::commit, next);
    greedy.take(Kind::done);
    const std::vector<std::int64_t> keys(8192);
    constexpr int pulls = 400;  // 26 MB of keys
    Header pull;
    pull.clock = 1;
    pull.count = keys.size();
    for (int i = 0; i < pulls; ++i) greedy.send(Kind::pull, pull, std::as_bytes(std::span(keys)));
    expect(greedy.left_after(500ms) > 15'000'000, "most of its requests to stay with it");
    slow.send(Kind::commit, next);
    slow.take(Kind::done);
    for (int i = 0; i < pulls; ++i) greedy.take(Kind::values);
}

void test_what_a_client_is_told_the_news_of_is_bounded() {
    ServerOptions bounded = options(1, 1);
    bounded.shards.quotas.subscribed = 100'000;
    Server server(bounded);
    TableSpec table = spec(0, Consistency::essp, 1);
    table.layout = Layout::sparse;
    table.extent = 1;
    Raw greedy(server, 0);
    greedy.create(table);
    std::vector<std::int64_t> keys(1000);
    Header pull;
    pull.count = keys.size();
    int answers = 0;
    for (bool refused = false; !refused; ++answers) {
        expect(answers < 100, "a refusal");
        for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = answers * 1000 + static_cast<int>(i);
        greedy.send(Kind::pull, pull, std::as_bytes(std::span(keys)));
        refused = greedy.take() == Kind::failed;
    }
    expect(answers > 1, "the first rows to be granted");
}

void test_who_will_not_come_is_not_waited_for() {
    Server server(options(2, 3));
    Client client(0, 1, 2);
    for (std::uint32_t shard = 0; shard < 2; ++shard) join(server, client, shard);
    ClientDense table(client, spec(200000, Consistency::bsp, 0), 3);
    const auto created = table.create({});
    wait(client, created);
    table.created(*created);
    std::vector<float> out(200000);
    commit(client, table);
    const auto pull = table.pull(std::as_writable_bytes(std::span(out)), false);
    for (const std::uint32_t worker : {0u, 1u}) {  // the first is here, and stays
        server.give_up(worker);
        expect(client.wait(*pull, Time::now() + 50ms, [] {}) == Client::Progress::late,
               "a wait for the third");
    }
    server.give_up(2);
    wait(client, pull);
    commit(client, table);
}

void test_a_read_of_an_asynchronous_table_has_what_was_acknowledged_to_the_reader() {
    Server server(options(2, 1));
    Client client(0, 1, 2);
    for (std::uint32_t shard = 0; shard < 2; ++shard) join(server, client, shard);
    ClientDense table(client, spec(200000, Consistency::asynchronous, 0), 3);
    const auto created = table.create({});
    wait(client, created);
    table.created(*created);
    std::vector<float> ones(200000, 1.0f), out(200000);
    for (int clock = 0; clock < 20; ++clock) {
        wait(client, table.push(std::as_bytes(std::span(ones))));
        commit(client, table);
        const auto pull = table.pull(std::as_writable_bytes(std::span(out)), false);
        wait(client, pull);
        expect(pull->read.staleness == 0, "nothing to be missing");
        const auto both =
            table.push_pull(std::as_bytes(std::span(ones)), std::as_writable_bytes(std::span(out)));
        wait(client, both);
        expect(both->read.staleness == 0, "nor here");
    }
}

}  // namespace

int main() {
    test_values_are_used_from_where_they_lie_whatever_came_before();
    test_what_was_lent_is_kept_when_its_owner_wants_it_back();
    test_who_takes_no_answers_is_not_listened_to();
    test_requests_that_wait_for_others_are_bounded();
    test_what_a_client_is_told_the_news_of_is_bounded();
    test_who_will_not_come_is_not_waited_for();
    test_a_read_of_an_asynchronous_table_has_what_was_acknowledged_to_the_reader();
    test_workers_agree(Consistency::bsp, 0);
    test_workers_agree(Consistency::ssp, 2);
    test_workers_agree(Consistency::essp, 2);
    test_nonsense_ends_a_connection_and_nothing_else();
}
