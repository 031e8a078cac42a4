// The order that all shards follow: who joined, what was committed, who ended.

#include <algorithm>

#include "base/error.hpp"
#include "server/shard.hpp"

namespace unisono::server {

/// The coordinator decides who is a member; another shard waits until it has been told.
void Shard::greet(Session& session, const Header& head) {
    if (head.incarnation == 0 || fenced_.contains(head.incarnation)) {
        refuse(session, {},
               "worker " + std::to_string(head.worker) + " has been given up: the others went on without it",
               Trouble::lost);
        return drop(session);
    }
    const auto* member = store_.member(head.worker);
    if (member && member->incarnation == head.incarnation) return welcome(session, head);
    if (!coordinates() || misses_shards()) return park(session, head, {});
    if (member && member->incarnation != 0) {
        if (!broken_.contains(head.worker)) {
            refuse(session, {},
                   "worker " + std::to_string(head.worker) +
                       " is here already: every process needs its own rank",
                   Trouble::config);
            return drop(session);
        }
        end_worker(head.worker);
    }
    Header order;
    order.kind = Kind::joined;
    order.worker = head.worker;
    order.incarnation = head.incarnation;
    publish(order);
    welcome(session, head);
}

/// Whoever joins or ends now would do so on those that are here.
bool Shard::misses_shards() const {
    const auto is_peer = [](const Session& session) { return session.role == Role::peer; };
    return std::ranges::count_if(sessions_, is_peer) + 1 < options_.shards;
}

void Shard::welcome(Session& session, const Header& head) {
    for (Session& other : sessions_)  // an old connection of the same process, whose end we have not noticed
        if (&other != &session && other.role == Role::worker && other.incarnation == head.incarnation) {
            other.incarnation = 0;
            drop(other);
        }
    broken_.erase(head.worker);
    session.incarnation = head.incarnation;
    Header reply;
    reply.kind = Kind::welcome;
    reply.sequence = store_.member(head.worker)->watermark;
    session.connection.send(reply);
    touch(session);
}

void Shard::publish(const Header& head, Bytes payload) {
    tell_peers(head, payload);
    follow(head, payload);
}

void Shard::tell_peers(const Header& head, Bytes payload) {
    for (Session& session : sessions_) {
        if (session.role != Role::peer || session.gone) continue;
        session.connection.send(head, payload);
        touch(session);
    }
}

void Shard::follow(const Header& head, Bytes payload) {
    switch (head.kind) {
        case Kind::joined:
            store_.joined(head.worker, head.incarnation);
            for (auto at = parked_.begin(); at != parked_.end();) {
                const bool meant = at->head.kind == Kind::hello && at->head.incarnation == head.incarnation;
                if (meant) at->session->parked = 0;
                if (meant && !at->session->gone) welcome(*at->session, at->head);
                at = meant ? parked_.erase(at) : std::next(at);
            }
            break;
        case Kind::committed: {
            Table& table = store_.table(head.table);
            const auto slowest = table.slowest();
            store_.committed(head.worker, head.table, head.clock);
            if (table.slowest() != slowest) push_eagerly(head.table, table);
            break;
        }
        case Kind::ended:
            fenced_.insert(head.incarnation);
            for (Session& session : sessions_)
                if (session.role == Role::worker && session.incarnation == head.incarnation &&
                    head.incarnation != 0 && !coordinates())
                    drop(session);
            store_.ended(head.worker);
            for (const auto number : store_.abandon_all(head.worker)) forget_readers(number);
            for (auto& [number, table] : store_.tables()) push_eagerly(number, table);
            break;
        case Kind::made:
            return store_.made(head.table);
        case Kind::mark:
        case Kind::keep:
        case Kind::discard:
        case Kind::examine:
        case Kind::reload:
        case Kind::forget:
            return follow_marking(head, payload);
        case Kind::bye:
            farewell_ = true;
            return;
        default:
            throw Malformed("a frame that the coordinator does not send");
    }
    if (head.kind != Kind::committed)
        present_ = static_cast<std::uint32_t>(std::ranges::count_if(
            store_.members(), [](const auto& one) { return one.second.incarnation != 0; }));
    unpark(head.worker);
}

void Shard::end_worker(std::uint32_t worker) {
    if (!coordinates()) throw Malformed("a worker leaves at the coordinator");
    const auto* member = store_.member(worker);
    if (!member) return;
    broken_.erase(worker);
    Header order;
    order.kind = Kind::ended;
    order.worker = worker;
    order.incarnation = member->incarnation;
    publish(order);
}

void Shard::end_the_broken() {
    const auto now = Time::now();
    for (auto at = broken_.begin(); at != broken_.end();) {
        const auto [worker, since] = *at++;
        if (now >= since + options_.grace) end_worker(worker);
    }
}

void Shard::end_the_absent() {
    if (misses_shards()) return;  // when the last of them is here, the bell rings again
    std::vector<std::uint32_t> absent;
    {
        const std::lock_guard lock(mutex_);
        absent.swap(absent_);
    }
    for (const std::uint32_t worker : absent)
        if (const auto* member = store_.member(worker); member && member->incarnation == 0)
            end_worker(worker);
}

// Eager pushes: who has pulled a row gets it again whenever the slowest clock has moved.

void Shard::subscribe(Session& session, const Header& head, Bytes payload) {
    std::size_t known = payload.size();
    for (const auto& [_, subscription] : session.eager) known += subscription.rows.memory();
    if (known > options_.quotas.subscribed)
        throw Refused("worker " + std::to_string(head.worker) + " reads more rows of essp tables than the " +
                      std::to_string(options_.quotas.subscribed) +
                      " bytes that a shard remembers them in: ssp has no such limit");
    Subscription& subscription = session.eager[head.table];
    if (payload.empty()) {
        subscription.chunks.insert(head.first);
        return;
    }
    const std::span keys(reinterpret_cast<const std::int64_t*>(payload.data()),
                         payload.size() / sizeof(std::int64_t));
    for (const std::int64_t key : keys) subscription.rows.insert(key);
}

/// Of a table that is gone.
void Shard::forget_readers(std::uint32_t number) {
    for (Session& session : sessions_) session.eager.erase(number);
}

void Shard::push_eagerly(std::uint32_t number, Table& table) {
    if (table.spec.consistency != Consistency::essp) return;
    const auto changes = table.content().take_changes();
    for (Session& session : sessions_) {
        const auto found = session.eager.find(number);
        if (session.gone || found == session.eager.end()) continue;
        for (const std::int64_t key : changes)
            if (found->second.rows.find(key) != Rows::absent) found->second.due.insert(key);
        found->second.behind = true;
        if (session.connection.waiting() == 0) send_due(session, number, found->second);
        touch(session);
    }
}

/// At most one round of eager pushes waits for a client: who is slow gets the newest one when it can.
void Shard::send_due(Session& session, std::uint32_t number, Subscription& subscription) {
    subscription.behind = false;
    Table& table = store_.table(number);
    Header head;
    head.kind = Kind::eager;
    head.table = number;
    head.clock = table.slowest();
    head.sequence =
        table.applied(table.clock_of(session.number).value_or(0));  // how much of the worker's own is in it
    if (table.spec.layout == Layout::dense) {
        for (const std::uint64_t first : subscription.chunks) {
            head.first = first;
            head.count = std::min<std::uint64_t>(table.spec.chunk(), table.spec.extent - first);
            std::vector<std::byte> values;
            table.content().read(head, {}, values);
            session.connection.send(head, std::move(values));
        }
        return;
    }
    const std::size_t each = sizeof(std::int64_t) + table.spec.extent * size_of(table.spec.wire);
    const std::size_t at_once = std::max<std::size_t>(1, most_payload / 2 / each);
    const auto keys = subscription.due.keys();
    for (std::size_t done = 0; done == 0 || done < keys.size(); done += at_once) {
        const auto some = std::as_bytes(keys.subspan(done, std::min(at_once, keys.size() - done)));
        head.count = some.size() / sizeof(std::int64_t);
        std::vector<std::byte> payload(some.begin(), some.end());
        table.content().read(head, some, payload);
        head.first = done + at_once >= keys.size();  // the last: all that the worker has is now of this clock
        session.connection.send(head, std::move(payload));
    }
    subscription.due.clear();
}

}  // namespace unisono::server
