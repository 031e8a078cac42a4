#include "server/shard.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "server/linger.hpp"

namespace unisono::server {

namespace {

Fd made(int descriptor, const char* what) {
    if (descriptor < 0) throw_errno(what);
    return Fd(descriptor);
}

std::unique_ptr<ApplyLog> open_log(const ShardOptions& options) {
    if (options.log.empty()) return nullptr;
    return std::make_unique<ApplyLog>(options.log + "/shard-" + std::to_string(options.shard) + ".log");
}

}  // namespace

Shard::Shard(ShardOptions options)
    : options_(std::move(options)),
      store_(options_.workers, options_.quotas, options_.rules, open_log(options_)),
      epoll_(made(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
      bell_(made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      writer_([this] { ::eventfd_write(bell_.number(), 1); }) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = nullptr;
    if (::epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, bell_.number(), &event) != 0) throw_errno("epoll_ctl");
    thread_ = std::thread([this] { run(); });
}

Shard::~Shard() { close(); }

void Shard::adopt(Connection connection, Role role, std::uint32_t number) {
    {
        const std::lock_guard lock(mutex_);
        arrivals_.push_back({std::move(connection), role, number});
    }
    ::eventfd_write(bell_.number(), 1);
}

void Shard::give_up(std::uint32_t worker) {
    {
        const std::lock_guard lock(mutex_);
        absent_.push_back(worker);
    }
    ::eventfd_write(bell_.number(), 1);
}

void Shard::begin_to_close() {
    closing_ = true;
    if (bell_.valid()) ::eventfd_write(bell_.number(), 1);
}

void Shard::close() {
    if (!thread_.joinable()) return;
    begin_to_close();
    if (!origin_.is_here()) return thread_.detach();  // a forked child does not have it
    thread_.join();
    writer_.close();
    sessions_.clear();
    arrivals_.clear();
    epoll_ = Fd();
    bell_ = Fd();
}

void Shard::run() {
    std::array<epoll_event, 64> events;
    while (!closing_) {
        const int timeout = may_rest() ? next_timeout() : 0;
        const int count = ::epoll_wait(epoll_.number(), events.data(), events.size(), timeout);
        try {
            for (int i = 0; i < count; ++i) {
                auto* session = static_cast<Session*>(events[static_cast<std::size_t>(i)].data.ptr);
                if (session == nullptr) {
                    answer_bell();
                } else if (!session->gone) {
                    session->connection.woken();
                    serve(*session);
                }
            }
            for (Session* session : std::exchange(hungry_, {}))
                if (!session->gone) serve(*session);
            end_the_broken();
            settle();
        } catch (const std::exception& error) {
            fail(error.what());
        }
        bury();
    }
    Header bye;
    bye.kind = Kind::bye;
    for (Session& session : sessions_) try {
            if (session.role != Role::worker) session.connection.send(bye);
            session.connection.flush();
        } catch (const std::exception&) {  // it is gone already
        }
    try {
        store_.flush_log();
    } catch (const std::exception& error) {
        fail(error.what());
    }
}

/// Sessions are looked at for a short while before the thread sleeps, as who was served often asks again at
/// once; then those who share memory are told to ring.
bool Shard::may_rest() {
    if (!hungry_.empty()) return false;
    const auto is_here = [](const Session& session) { return session.connection.shares_core(); };
    const bool looks_at_sockets = std::exchange(lingers_at_sockets_, false);
    const auto look = [&] { return find_stirring() || (looks_at_sockets && has_events()); };
    if (std::exchange(lingers_, false) &&
        linger(time_of_servers, look, [&] { return std::ranges::any_of(sessions_, is_here); }))
        return false;
    for (Session& session : sessions_)
        if (!session.gone && !session.connection.rest(may_ask(session))) hungry_.push_back(&session);
    return hungry_.empty();
}

bool Shard::find_stirring() {
    for (Session& session : sessions_)
        if (!session.gone && session.connection.stirs(may_ask(session))) hungry_.push_back(&session);
    return !hungry_.empty();
}

bool Shard::has_events() const {
    epoll_event event;
    return ::epoll_wait(epoll_.number(), &event, 1, 0) > 0;
}

int Shard::next_timeout() const {
    if (broken_.empty()) return -1;
    Time::time_point first = Time::time_point::max();
    for (const auto& [_, since] : broken_) first = std::min(first, since + options_.grace);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Time::now());
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

void Shard::answer_bell() {
    eventfd_t rings;
    ::eventfd_read(bell_.number(), &rings);
    for (const auto& [number, trouble] : writer_.take_results()) tell_marked(number, trouble);
    take_arrivals();
    end_the_absent();
}

}  // namespace unisono::server
