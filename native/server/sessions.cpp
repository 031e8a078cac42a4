// A shard's connections: what comes, what goes, and their ends.

#include <poll.h>

#include <algorithm>

#include "base/error.hpp"
#include "server/shard.hpp"

namespace unisono::server {

namespace {

/// A client gets no more answers while so much waits for it: it is the one that does not read.
constexpr std::size_t most_waiting = std::size_t{1} << 20;
/// Nor are its requests read while so many bytes of them wait for other workers.
constexpr std::size_t most_parked = std::size_t{8} << 20;
/// Then it is the turn of others.
constexpr int frames_at_a_time = 64;
constexpr std::size_t worth_sending = std::size_t{64} << 10;
static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT);

}  // namespace

void Shard::take_arrivals() {
    std::vector<Arrival> arrivals;
    {
        const std::lock_guard lock(mutex_);
        arrivals.swap(arrivals_);
    }
    for (Arrival& arrival : arrivals) {
        if (sessions_.size() >= options_.quotas.clients) continue;  // its socket closes
        Session& session =
            sessions_.emplace_back(std::move(arrival.connection), arrival.role, arrival.number);
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.ptr = &session;
        if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, session.connection.descriptor(), &event) != 0)
            session.gone = true;
        else if (arrival.role == Role::peer)
            for (Parked& parked : std::exchange(parked_, {})) {
                parked.session->parked = 0;
                greet(*parked.session, parked.head);
            }
    }
}

void Shard::serve(Session& session) {
    try {
        session.connection.awake();
        lingers_ = true;
        lingers_at_sockets_ |= !session.connection.shares_memory();
        session.connection.flush();
        pump(session);
    } catch (const CallFailed&) {
        drop(session);
    } catch (const Malformed& error) {
        refuse(session, {}, error.what(), Trouble::config);
        drop(session);
    } catch (const std::exception& error) {
        fail(error.what());
    }
}

void Shard::pump(Session& session) {
    Header head;
    Bytes payload;
    int left = frames_at_a_time;
    while (!session.gone && left > 0 && may_ask(session) && session.connection.next(head, payload)) {
        --left;
        try {
            handle(session, head, payload);
        } catch (const Refused& error) {
            refuse(session, head, error.what(), error.trouble);
        }
        session.connection.release();
        // The first answers travel while the next requests are served.
        if (session.connection.waiting() >= worth_sending) session.connection.flush();
    }
    if (session.gone) return;
    if (!may_ask(session) && session.connection.over()) return drop(session);
    session.paused = left == 0 || !may_ask(session);
    if (session.ack != 0) {
        Header ack;
        ack.kind = Kind::ack;
        ack.sequence = std::exchange(session.ack, 0);
        session.connection.send(ack);
    }
    watch(session);
}

void Shard::touch(Session& session) {
    if (!std::exchange(session.touched, true)) touched_.push_back(&session);
}

/// A client that does not take its answers, or asks for ever more that has to wait, is not listened to.
bool Shard::may_ask(const Session& session) {
    return session.connection.waiting() < most_waiting && session.parked < most_parked;
}

/// Others may have got answers, too.
void Shard::settle() {
    for (std::size_t i = 0; i < touched_.size(); ++i) {  // it may grow
        Session& session = *touched_[i];
        session.touched = false;
        if (session.gone) continue;
        try {
            watch(session);
        } catch (const CallFailed&) {
            drop(session);
        }
    }
    touched_.clear();
}

/// Sends what there is to send, and says what to wait for.
void Shard::watch(Session& session) {
    if (session.connection.flush())
        for (auto& [number, subscription] : session.eager)
            if (subscription.behind) send_due(session, number, subscription);
    epoll_event event{};
    const bool listens = may_ask(session);
    event.events = session.connection.events(listens);
    event.data.ptr = &session;
    const std::uint32_t wanted = event.events;
    if (std::exchange(session.events, wanted) != wanted)
        ::epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, session.connection.descriptor(), &event);
    // What has arrived may be in our own memory, of which epoll knows nothing.
    if (listens && std::exchange(session.paused, false)) hungry_.push_back(&session);
}

void Shard::drop(Session& session) {
    if (session.gone) return;
    session.gone = true;
    ::epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, session.connection.descriptor(), nullptr);
    if (session.role == Role::worker) {
        const auto* member = store_.member(session.number);
        if (coordinates() && session.incarnation != 0 && member && member->incarnation == session.incarnation)
            broken_.try_emplace(session.number, Time::now());
    } else if (!farewell_ && !closing_) {
        const std::uint32_t server =
            session.role == Role::coordinator ? 0 : session.number / options_.threads;
        fail("server " + std::to_string(server) +
             " is gone. A job cannot go on without its servers: start it again from the last snapshot");
    }
}

void Shard::bury() {
    std::erase_if(parked_, [](const Parked& parked) { return parked.session->gone; });
    for (auto* sessions : {&touched_, &hungry_})
        std::erase_if(*sessions, [](const Session* session) { return session->gone; });
    for (Marking& marking : markings_)
        if (marking.session && marking.session->gone) marking.session = nullptr;
    sessions_.remove_if([](const Session& session) { return session.gone; });
}

/// All workers hear of it; nothing can be served any more.
void Shard::fail(const std::string& why) {
    if (std::exchange(failed_, true)) return;
    for (Session& session : sessions_) try {
            if (session.gone || session.role != Role::worker) continue;
            refuse(session, {}, why, Trouble::lost);
            session.connection.flush();
        } catch (const std::exception&) {  // it is gone itself
        }
    if (options_.failed) options_.failed(why);
}

}  // namespace unisono::server
