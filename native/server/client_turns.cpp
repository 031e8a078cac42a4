// Who moves the bytes of a worker: whoever waits, or a thread of our own.

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/error.hpp"
#include "server/client.hpp"
#include "server/linger.hpp"

namespace unisono::server {

namespace {

constexpr std::chrono::milliseconds look_up_after{100};

}  // namespace

Client::Progress Client::wait(const Operation& operation, Time::time_point until,
                              const std::function<void()>& look_up) {
    origin_.require("a connection to parameter servers");
    std::unique_lock lock(mutex_);
    auto looked = Time::now();
    while (!operation.done()) {
        if (any_detached()) return Progress::broken;
        const auto now = Time::now();
        if (now >= until) return Progress::late;
        const auto most = std::min(look_up_after, std::chrono::ceil<std::chrono::milliseconds>(until - now));
        if (driven_)
            changed_.wait_for(lock, most);
        else if (!look_for_a_while(lock))
            turn(lock, most);
        if (Time::now() - looked < look_up_after) continue;
        lock.unlock();
        look_up();
        lock.lock();
        looked = Time::now();
    }
    return Progress::done;
}

/// At the lanes that share memory, before a sleep. True if something has happened. The mutex is free between
/// two looks.
bool Client::look_for_a_while(std::unique_lock<std::mutex>& lock) {
    const auto shares = [](const Lane& lane) { return lane.connection && lane.connection->shares_memory(); };
    if (std::ranges::none_of(shards_, shares)) return false;
    driven_ = true;
    lock.unlock();
    const auto is_here = [](const Lane& lane) { return lane.connection && lane.connection->shares_core(); };
    const bool found = linger(
        time_of_workers,
        [&] {
            const std::lock_guard look(mutex_);
            return closing_ || receive_what_stirs();
        },
        [&] {
            const std::lock_guard look(mutex_);
            return std::ranges::any_of(shards_, is_here);
        });
    lock.lock();
    driven_ = false;
    changed_.notify_all();
    return found;
}

bool Client::receive_what_stirs() {
    bool any = false;
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard)
        if (shards_[shard].connection && shards_[shard].connection->stirs(true)) {
            receive(shard);
            any = true;
        }
    return any;
}

/// True if something has happened. The mutex is free while this polls.
bool Client::turn(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds most) {
    std::vector<pollfd> sockets{{bell_.number(), POLLIN, 0}};
    std::vector<std::uint32_t> owners;
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
        const auto& connection = shards_[shard].connection;
        if (!connection) continue;
        if (!connection->rest(true)) most = std::chrono::milliseconds(0);
        sockets.push_back({connection->descriptor(), static_cast<short>(connection->events(true)), 0});
        owners.push_back(shard);
    }
    driven_ = true;
    lock.unlock();
    const int ready = ::poll(sockets.data(), sockets.size(), static_cast<int>(most.count()));
    lock.lock();
    driven_ = false;
    if (ready > 0 && sockets[0].revents) {
        eventfd_t rings;
        ::eventfd_read(bell_.number(), &rings);
    }
    bool happened = ready > 0;
    for (std::size_t i = 0; i < owners.size(); ++i) {
        const auto& connection = shards_[owners[i]].connection;
        const bool rung = ready > 0 && sockets[i + 1].revents;
        if (!connection) continue;  // another thread has given it up
        if (rung) connection->woken();
        connection->awake();
        if (!rung && !connection->stirs(true)) continue;
        receive(owners[i]);
        happened = true;
    }
    changed_.notify_all();
    return happened;
}

void Client::receive(std::uint32_t shard) {
    Lane& lane = shards_[shard];
    if (!lane.connection) return;
    try {
        lane.connection->flush();
        Header head;
        while (lane.connection->next_header(head)) {
            Request* request = head.kind == Kind::values ? find(lane, head.sequence) : nullptr;
            const bool direct =
                request && request->target.size() == head.length && !(head.flags & with_clocks);
            if (!direct && lane.buffer.size() < head.length) lane.buffer.resize(head.length);
            const auto target = direct ? request->target : std::span(lane.buffer).first(head.length);
            if (!lane.connection->fill(target)) break;
            take(shard, head, target);
            if (!lane.connection) return;
        }
    } catch (const CallFailed& failed) {
        detach(lane, failed.reason);
    } catch (const Malformed& error) {
        detach(lane, error.what());
    }
}

void Client::take_news() {
    std::unique_lock lock(mutex_);
    if (!driven_) turn(lock, std::chrono::milliseconds(0));
}

void Client::in_background() {
    const std::lock_guard lock(mutex_);
    background_ = true;
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    changed_.notify_all();
}

void Client::work() {
    std::unique_lock lock(mutex_);
    while (!closing_) {
        if (driven_ || !background_ || !any_outstanding()) {
            if (!driven_) background_ = false;
            changed_.wait(lock);
        } else {
            turn(lock, std::chrono::milliseconds(1000));
        }
    }
}

}  // namespace unisono::server
