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
    server.adopt_worker(std::move(theirs), client.worker(), shard);
    client.attach(shard, std::move(ours));
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
    Server server(options(2, 3));
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
        server.adopt_worker(std::move(theirs), 0, 0);
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

}  // namespace

int main() {
    test_workers_agree(Consistency::bsp, 0);
    test_workers_agree(Consistency::ssp, 2);
    test_workers_agree(Consistency::essp, 2);
    test_nonsense_ends_a_connection_and_nothing_else();
}
