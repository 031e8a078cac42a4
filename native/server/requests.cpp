#include <algorithm>

#include "base/error.hpp"
#include "server/shard.hpp"

namespace unisono::server {

namespace {

std::uint64_t nanoseconds(Time::duration time) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count());
}

}  // namespace

void Shard::handle(Session& session, const Header& head, Bytes payload) {
    if (failed_) return;
    switch (session.role) {
        case Role::coordinator:
            return follow(head, payload);
        case Role::peer:
            if (head.kind == Kind::bye)
                farewell_ = true;
            else if (head.kind == Kind::marked)
                note_marked(session.number, head, payload);
            else
                throw Malformed("a frame that no shard sends to the coordinator");
            return;
        case Role::worker:
            return handle_worker(session, head, payload);
    }
}

void Shard::handle_worker(Session& session, const Header& head, Bytes payload) {
    if (head.worker != session.number) throw Malformed("a frame of another worker than the one that came");
    if (head.kind == Kind::hello) return greet(session, head);
    if (session.incarnation == 0 || head.incarnation != session.incarnation)
        throw Malformed("a request of who has not been welcome");
    switch (head.kind) {
        case Kind::create: {
            Table& table = store_.create(head, payload);
            if (table.spec.consistency == Consistency::essp) table.content().watch_changes();
            return finish(session, head, table.clock_of(head.worker).value_or(0));
        }
        case Kind::confirm:
            return confirm(session, head);
        case Kind::abandon:
            if (store_.abandon(head.worker, head.table)) forget_readers(head.table);
            return finish(session, head);
        case Kind::push:
        case Kind::prepare:
        case Kind::push_pull:
        case Kind::withdraw:
            return handle_push(session, head, payload);
        case Kind::pull:
        case Kind::commit:
            if (!try_serve(session, head, payload, 0, nobody)) park(session, head, payload);
            return;
        case Kind::leave:
            end_worker(head.worker);
            return finish(session, head);
        case Kind::status:
            store_.flush_log();
            return finish(session, head, 0, status());
        case Kind::snapshot:
        case Kind::restore:
            return mark(session, head, payload);
        default:
            throw Malformed("a request that no worker makes");
    }
}

void Shard::confirm(Session& session, const Header& head) {
    if (!coordinates()) throw Malformed("a table that is confirmed elsewhere than at the coordinator");
    if (!store_.is_made(head.table)) {
        if (!store_.is_tried_by(head.worker, head.table))
            throw Malformed("a table that is confirmed by who has not made it");
        Header order;
        order.kind = Kind::made;
        order.worker = head.worker;
        order.table = head.table;
        publish(order);
    }
    finish(session, head);
}

void Shard::handle_push(Session& session, const Header& head, Bytes payload) {
    store_.push(head, payload);
    if (head.kind != Kind::push_pull) {
        session.ack = head.sequence;
        return;
    }
    Header pull = head;
    pull.kind = Kind::pull;
    const Table& table = store_.table(head.table);
    const std::size_t keys = table.spec.layout == Layout::sparse ? head.count * sizeof(std::int64_t) : 0;
    answer(session, pull, payload.first(keys), 0, nobody);
}

void Shard::refuse(Session& session, const Header& head, const std::string& why, Trouble trouble) {
    Header reply;
    reply.kind = Kind::failed;
    reply.sequence = head.sequence;
    reply.first = static_cast<std::uint64_t>(trouble);
    session.connection.send(reply, std::as_bytes(std::span(why)));
    touch(session);
    if (head.sequence != 0) return;
    try {  // its last words
        session.connection.flush();
    } catch (const CallFailed&) {
        drop(session);
    }
}

void Shard::finish(Session& session, const Header& head, std::uint64_t clock, const std::string& text) {
    Header reply;
    reply.kind = Kind::done;
    reply.sequence = head.sequence;
    reply.table = head.table;
    reply.clock = clock;
    session.connection.send(reply, std::as_bytes(std::span(text)));
    touch(session);
}

/// False if it has to wait for other workers.
bool Shard::try_serve(Session& session, const Header& head, Bytes payload, std::uint64_t waited,
                      std::uint32_t by) {
    Table& table = store_.table(head.table);
    if (head.kind == Kind::pull) {
        if (!table.may_read(head.worker, head.clock)) return false;
        answer(session, head, payload, waited, by);
        return true;
    }
    if (!coordinates()) throw Malformed("a clock that is committed elsewhere than at the coordinator");
    const auto clock = table.clock_of(head.worker);
    if (!clock)
        throw Refused("worker " + std::to_string(head.worker) + " is no member any more", Trouble::lost);
    if (head.clock > *clock + 1) throw Malformed("a clock that is not the worker's next one");
    if (head.clock == *clock + 1) {
        if (!table.may_commit(*clock)) return false;
        Header order;
        order.kind = Kind::committed;
        order.worker = head.worker;
        order.table = head.table;
        order.clock = head.clock;
        publish(order);
    }
    finish(session, head, table.slowest());
    return true;
}

void Shard::answer(Session& session, const Header& head, Bytes payload, std::uint64_t waited,
                   std::uint32_t by) {
    Table& table = store_.table(head.table);
    Header reply;
    reply.kind = Kind::values;
    reply.flags = head.flags & with_clocks;
    reply.table = head.table;
    reply.worker = by;
    reply.incarnation = waited;
    reply.sequence = head.sequence;
    reply.clock = table.complete_for(head.worker, head.clock);
    reply.first = head.first;
    reply.count = head.count;
    if (table.spec.consistency == Consistency::essp) subscribe(session, head, payload);
    // Under bsp nothing changes before this worker has committed its next clock.
    const bool stays =
        table.spec.consistency == Consistency::bsp || table.spec.consistency == Consistency::asynchronous;
    if (stays && reply.flags == 0 && table.spec.layout == Layout::dense)
        if (const Bytes lent = table.content().borrow(head); !lent.empty()) {
            session.connection.lend(reply, lent);
            touch(session);
            return;
        }
    Packer packer;
    if (reply.flags & with_clocks) {
        packer.put(static_cast<std::uint64_t>(table.clocks().size() + table.departed().size()));
        for (const auto& [worker, clock] : table.departed())
            packer.put(worker | has_ended).put(table.applied(clock));
        for (const auto& [worker, clock] : table.clocks())
            packer.put(static_cast<std::uint64_t>(worker)).put(table.applied(clock));
    }
    table.content().read(head, payload, packer.bytes);
    if (packer.bytes.size() > most_payload) throw Malformed("a pull whose answer would be too large");
    session.connection.send(reply, std::move(packer.bytes));
    touch(session);
}

void Shard::park(Session& session, const Header& head, Bytes payload) {
    parked_.push_back({&session, head, {payload.begin(), payload.end()}, Time::now()});
    session.parked += sizeof(Parked) + payload.size();
}

/// After the clock of `by` has changed something. What is served may change more.
void Shard::unpark(std::uint32_t by) {
    unpark_again_ = true;
    if (std::exchange(unparking_, true)) return;
    while (std::exchange(unpark_again_, false)) unpark_once(by);
    unparking_ = false;
}

void Shard::unpark_once(std::uint32_t by) {
    for (auto at = parked_.begin(); at != parked_.end();) {
        if (at->head.kind == Kind::hello || at->session->gone) {
            ++at;
            continue;
        }
        const auto waited = nanoseconds(Time::now() - at->since);
        bool served = true;
        try {
            served = try_serve(*at->session, at->head, at->payload, waited, by);
        } catch (const Refused& error) {
            refuse(*at->session, at->head, error.what(), error.trouble);
        } catch (const Malformed& error) {
            refuse(*at->session, at->head, error.what(), Trouble::config);
        }
        if (served && by != at->head.worker) waits_[{at->head.worker, by}] += waited;
        if (!served) {
            ++at;
            continue;
        }
        at->session->parked -= sizeof(Parked) + at->payload.size();
        touch(*at->session);
        at = parked_.erase(at);
    }
}

}  // namespace unisono::server
