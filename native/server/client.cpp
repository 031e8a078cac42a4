#include "server/client.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>

#include "base/error.hpp"

namespace unisono::server {

namespace {

constexpr std::chrono::milliseconds look_up_after{100};

}  // namespace

Client::Client(std::uint32_t worker, std::uint64_t incarnation, std::uint32_t shards)
    : worker_(worker),
      incarnation_(incarnation),
      shards_(shards),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!bell_.valid()) throw_errno("eventfd");
}

Client::~Client() {
    if (!origin_.is_here()) {  // a forked child has neither the thread nor the right to the mutex
        if (thread_.joinable()) thread_.detach();
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    changed_.notify_all();
    ::eventfd_write(bell_.number(), 1);
    if (thread_.joinable()) thread_.join();
}

void Client::attach(std::uint32_t shard, Fd socket) {
    const std::lock_guard lock(mutex_);
    Lane& lane = shards_.at(shard);
    lane.connection = std::make_unique<Connection>(std::move(socket));
    lane.why.clear();
    lane.welcome = false;
    Header hello;
    hello.kind = Kind::hello;
    hello.worker = worker_;
    hello.incarnation = incarnation_;
    lane.connection->send(hello);  // the requests follow when it is welcome
    try {
        lane.connection->flush();
    } catch (const CallFailed& failed) {
        detach(lane, failed.reason);
    }
}

std::vector<std::uint32_t> Client::detached() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint32_t> result;
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard)
        if (!shards_[shard].connection) result.push_back(shard);
    return result;
}

std::string Client::why_detached(std::uint32_t shard) const {
    const std::lock_guard lock(mutex_);
    return shards_.at(shard).why;
}

void Client::issue(std::uint32_t shard, Request request) {
    origin_.require("a connection to parameter servers");
    Lane& lane = shards_.at(shard);
    request.head.worker = worker_;
    request.head.incarnation = incarnation_;
    request.head.sequence = ++lane.sequence;
    request.head.length = static_cast<std::uint32_t>(request.owned.size() + request.lent.size());
    if (lost_) {
        request.operation->failed = true;
        request.operation->trouble = Trouble::lost;
        request.operation->text = *lost_;
        return;
    }
    ++request.operation->pending;
    lane.requests.push_back(std::move(request));
    if (!lane.connection || !lane.welcome) return;
    const bool idle = lane.connection->waiting() == 0;
    transmit(lane, lane.requests.back());
    if (!idle) return;
    try {
        if (!lane.connection->flush() && driven_) ::eventfd_write(bell_.number(), 1);
    } catch (const CallFailed& failed) {
        detach(lane, failed.reason);
    }
}

void Client::transmit(Lane& lane, const Request& request) {
    // Header and first part are copied; the second part stays where it is until the answer is here.
    lane.connection->send_in_two(request.head, request.owned, request.lent);
}

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
        else
            turn(lock, most);
        if (Time::now() - looked < look_up_after) continue;
        lock.unlock();
        look_up();
        lock.lock();
        looked = Time::now();
    }
    return Progress::done;
}

/// True if something has happened. The mutex is free while this polls.
bool Client::turn(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds most) {
    std::vector<pollfd> sockets{{bell_.number(), POLLIN, 0}};
    std::vector<std::uint32_t> owners;
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard) {
        const auto& connection = shards_[shard].connection;
        if (!connection) continue;
        const int events = POLLIN | (connection->waiting() > 0 ? POLLOUT : 0);
        sockets.push_back({connection->descriptor(), static_cast<short>(events), 0});
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
    for (std::size_t i = 0; ready > 0 && i < owners.size(); ++i)
        if (sockets[i + 1].revents) receive(owners[i]);
    changed_.notify_all();
    return ready > 0;
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

Client::Request* Client::find(Lane& lane, std::uint64_t sequence) {
    if (lane.requests.empty() || sequence < lane.requests.front().head.sequence) return nullptr;
    const std::size_t index = sequence - lane.requests.front().head.sequence;
    if (index >= lane.requests.size() || lane.requests[index].answered) return nullptr;
    return &lane.requests[index];
}

void Client::take(std::uint32_t shard, const Header& head, Bytes payload) {
    Lane& lane = shards_[shard];
    const auto text = [&] {
        return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
    };
    if (head.kind == Kind::welcome) {
        lane.welcome = true;
        for (const Request& request : lane.requests)
            if (!request.answered) transmit(lane, request);
        lane.connection->flush();
    } else if (head.kind == Kind::eager) {
        if (eager_) eager_(shard, head, payload);
    } else if (head.kind == Kind::failed && head.sequence == 0) {
        fail_all(text());
    } else if (head.kind == Kind::ack) {
        for (Request& request : lane.requests) {
            if (request.head.sequence > head.sequence) break;
            if (request.head.kind == Kind::push || request.head.kind == Kind::prepare) settle(request);
        }
    } else if (Request* request = find(lane, head.sequence)) {
        Operation& operation = *request->operation;
        if (head.kind == Kind::failed) {
            operation.failed = true;
            operation.trouble = static_cast<Trouble>(head.first);
            operation.text = text();
        } else if (head.kind == Kind::done) {
            if (shard == 0) operation.clock = head.clock;
            operation.text = text();
        } else if (request->arrived) {
            request->arrived(head, payload);
        }
        settle(*request);
    }
    while (!lane.requests.empty() && lane.requests.front().answered) lane.requests.pop_front();
}

void Client::settle(Request& request) {
    if (std::exchange(request.answered, true)) return;
    --request.operation->pending;
    request.operation.reset();
    request.arrived = nullptr;
    request.owned = {};
    request.kept = {};
}

void Client::fail_all(const std::string& why) {
    if (!lost_) lost_ = why;
    for (Lane& lane : shards_)
        for (Request& request : lane.requests) {
            if (request.answered) continue;
            request.operation->failed = true;
            request.operation->trouble = Trouble::lost;
            request.operation->text = *lost_;
            settle(request);
        }
    for (Lane& lane : shards_) detach(lane, *lost_);
}

void Client::let_go(const OperationPtr& operation) {
    const std::lock_guard lock(mutex_);
    for (Lane& lane : shards_)
        for (Request& request : lane.requests) {
            if (request.operation != operation) continue;
            request.target = {};
            request.arrived = nullptr;
            if (request.lent.empty()) continue;
            request.owned.insert(request.owned.end(), request.lent.begin(), request.lent.end());
            request.lent = {};
            // Half a frame may have gone: the rest goes from the copy, over a new connection.
            if (lane.connection && lane.connection->waiting() > 0) detach(lane, "a request was given up");
        }
}

void Client::detach(Lane& lane, const std::string& why) {
    lane.why = why;
    lane.connection.reset();
}

bool Client::any_detached() const {
    return std::ranges::any_of(shards_,
                               [](const Lane& lane) { return !lane.connection && !lane.requests.empty(); });
}

bool Client::any_outstanding() const {
    return std::ranges::any_of(shards_,
                               [](const Lane& lane) { return lane.connection && !lane.requests.empty(); });
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
