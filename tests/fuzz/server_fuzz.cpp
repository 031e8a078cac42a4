/// Whatever a worker with the key sends, a shard's state stays within its quotas: a frame is used, or it is
/// Malformed or Refused, before anything is allocated for it. And what is saved can be loaded.

#include <sys/socket.h>

#include <utility>

#include "base/error.hpp"
#include "demand.hpp"
#include "script.hpp"
#include "server/connection.hpp"
#include "server/store.hpp"

using namespace unisono;
using namespace unisono::server;

namespace {

constexpr Quotas quotas{.tables = 3, .memory = 1 << 20, .held = 1 << 16, .clients = 1};
constexpr std::size_t of_one_frame = 8 << 20;  // a batch of rows is checked as one
constexpr std::uint32_t workers = 2;

template <class Number>
Number choose(Script& script, Number likely) {
    return script.below(8) == 7 ? script.number<Number>() : static_cast<Number>(script.below(likely));
}

std::vector<std::byte> choose_description(Script& script) {
    TableSpec spec;
    spec.name.assign(script.below(4), 't');
    spec.layout = static_cast<Layout>(choose<std::uint8_t>(script, 2));
    spec.dtype = static_cast<Dtype>(choose<std::uint8_t>(script, 12));
    spec.wire = script.below(2) ? spec.dtype : static_cast<Dtype>(choose<std::uint8_t>(script, 12));
    spec.extent = spec.whole = choose<std::uint64_t>(script, 40);
    spec.update = static_cast<Update>(choose<std::uint8_t>(script, 6));
    spec.slots = choose<std::uint32_t>(script, 3);
    spec.consistency = static_cast<Consistency>(choose<std::uint8_t>(script, 4));
    spec.bound = choose<std::uint64_t>(script, 3);
    spec.init = static_cast<Init>(choose<std::uint8_t>(script, 3));
    Packer packer;
    spec.pack(packer);
    packer.put(Bytes(script.bytes(script.number<std::uint8_t>())));
    packer.bytes.resize(packer.bytes.size() -
                        std::min(packer.bytes.size(), std::size_t{script.below(8) == 7 ? 20u : 0u}));
    return packer.bytes;
}

Header choose_head(Script& script, Kind kind) {
    Header head;
    head.kind = kind;
    head.worker = choose<std::uint32_t>(script, workers + 1);
    head.incarnation = head.worker + choose<std::uint64_t>(script, 2);
    head.sequence = choose<std::uint64_t>(script, 20);
    head.clock = choose<std::uint64_t>(script, 4);
    head.table = choose<std::uint32_t>(script, 4);
    head.first = choose<std::uint64_t>(script, 3);
    head.count = choose<std::uint64_t>(script, 40);
    head.flags = script.number<std::uint16_t>();
    return head;
}

void use(Store& store, Script& script) {
    constexpr Kind kinds[] = {Kind::create,   Kind::push,      Kind::prepare, Kind::push_pull,
                              Kind::pull,     Kind::committed, Kind::joined,  Kind::ended,
                              Kind::withdraw, Kind::made,      Kind::abandon};
    const Kind kind = kinds[script.below(std::size(kinds))];
    const Header head = choose_head(script, kind);
    if (kind == Kind::create) {
        store.create(head, choose_description(script));
    } else if (kind == Kind::committed) {  // the coordinator lets nobody through who is not there
        if (Table* table = store.find(head.table); table && table->clock_of(head.worker))
            store.committed(head.worker, head.table, *table->clock_of(head.worker) + 1);
    } else if (kind == Kind::joined) {
        if (head.worker < workers) store.joined(head.worker, head.incarnation);
    } else if (kind == Kind::ended) {
        store.ended(head.worker);
        store.abandon_all(head.worker);
    } else if (kind == Kind::made) {
        store.made(head.table);
    } else if (kind == Kind::abandon) {
        store.abandon(head.worker, head.table);
    } else {
        const auto payload =
            script.bytes(script.below(2) ? script.number<std::uint8_t>() : head.count % 64 * 12);
        if (kind != Kind::pull) {
            store.push(head, payload);
            return;
        }
        std::vector<std::byte> answer;
        store.table(head.table).content().read(head, payload, answer);
        demand(answer.size() <= most_payload, "an answer that may travel");
    }
}

std::vector<std::byte> values_of(const Table& table) {
    Packer packer;
    table.content().save(packer);
    return packer.bytes;
}

void test_store(Script& script, std::size_t size) {
    Store store(workers, quotas, {.require = {}, .run = [](const RuleCall&) {}});
    for (std::size_t left = size / 8 + 1; left > 0; --left) try {
            use(store, script);
        } catch (const Malformed&) {
        } catch (const Refused&) {
        }
    std::size_t memory = 0;
    for (const auto& [_, table] : store.tables()) memory += table.memory();
    demand(memory <= quotas.memory + of_one_frame, "tables within their quota");
    demand(store.tables().size() <= quotas.tables, "as many tables as are allowed");
    Store again(workers, quotas, {.require = {}, .run = [](const RuleCall&) {}});
    try {
        again.stage(store.save());
    } catch (const Refused&) {  // rows of the last frame were beyond the quota
        return;
    }
    again.load_staged();
    for (const auto& [number, table] : again.tables())
        demand(values_of(table) == values_of(store.table(number)), "what is loaded to be what was saved");
}

/// Over a socket, or through memory of which the peer writes what it likes.
void test_connection(Script& script, bool through_memory) {
    int ends[2];
    demand(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    Fd ours(ends[0]), theirs(ends[1]);
    static const auto made =
        std::make_shared<Inbox>(Inbox::create(SocketRingLink::sizes(Connection::ring_bytes)));
    if (through_memory) {
        for (const int side : {0, 1}) {
            std::memset(static_cast<void*>(&made->ring(side).control), 0, sizeof(RingControl));
            std::memset(made->stage(static_cast<std::uint64_t>(side)).data(), 0, cache_line);
        }
    }
    auto connection = through_memory ? Connection(std::move(ours), made, 1) : Connection(std::move(ours));
    Header head = sealed(choose_head(script, static_cast<Kind>(script.number<std::uint8_t>())));
    head.length = choose<std::uint32_t>(script, 200);
    if (script.below(4) != 3) head = sealed(head);
    std::vector<std::byte> bytes(bytes_of(head).begin(), bytes_of(head).end());
    const auto more = script.rest();
    bytes.insert(bytes.end(), more.begin(), more.end());
    const Ring ring = made->ring(0);
    std::memcpy(ring.bytes.data(), bytes.data(), std::min(bytes.size(), ring.bytes.size()));
    if (through_memory)
        ring.control.tail = script.below(2) ? bytes.size() : script.number<std::uint64_t>();
    else
        ::send(theirs.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    try {
        Bytes payload;
        for (int frames = 0; frames < 3 && connection.next(head, payload); ++frames)
            demand(payload.size() == head.length && head.length <= most_payload, "a payload as it says");
    } catch (const Malformed&) {
    } catch (const CallFailed&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Script script({data, size});
    const auto what = script.below(4);
    if (what < 2)
        test_connection(script, what == 1);
    else
        test_store(script, size);
    return 0;
}
