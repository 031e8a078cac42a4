#include "server/client.hpp"

#include <sys/eventfd.h>

#include <algorithm>

#include "base/error.hpp"

namespace unisono::server {

namespace {

/// Several at once, by the sequence of the last one.
bool is_acknowledged(Kind kind) {
    return kind == Kind::push || kind == Kind::prepare || kind == Kind::withdraw;
}

}  // namespace

Client::Client(std::uint32_t worker, std::uint64_t incarnation, std::uint32_t shards)
    : worker_(worker),
      incarnation_(incarnation),
      shards_(shards),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!bell_.valid()) throw_errno("eventfd");
}

Client::~Client() { close(); }

void Client::close() {
    if (!origin_.is_here()) {  // a forked child has neither the thread nor the right to the mutex
        if (thread_.joinable()) thread_.detach();
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
        fail_all("this worker has left the parameter servers");
    }
    changed_.notify_all();
    ::eventfd_write(bell_.number(), 1);
    if (thread_.joinable()) thread_.join();
    const std::lock_guard lock(mutex_);
    bell_ = Fd();
}

void Client::attach(std::uint32_t shard, Connection connection) {
    const std::lock_guard lock(mutex_);
    Lane& lane = shards_.at(shard);
    lane.connection = std::make_unique<Connection>(std::move(connection));
    lane.why.clear();
    lane.welcome = false;
    if (renewed_) renewed_(shard);
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
            if (is_acknowledged(request.head.kind)) settle(request);
        }
    } else if (Request* request = find(lane, head.sequence)) {
        Operation& operation = *request->operation;
        const bool had_failed = operation.failed;  // on another shard, whose word counts
        if (head.kind == Kind::failed) {
            operation.failed = true;
            if (!had_failed) operation.trouble = static_cast<Trouble>(head.first);
            if (!had_failed) operation.text = text();
        } else if (head.kind == Kind::done) {
            if (shard == 0) operation.clock = head.clock;
            if (!had_failed) operation.text = text();
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

std::vector<std::uint32_t> Client::awaited(const OperationPtr& operation) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint32_t> result;
    for (std::uint32_t shard = 0; shard < shards_.size(); ++shard)
        if (std::ranges::any_of(shards_[shard].requests,
                                [&](const Request& request) { return request.operation == operation; }))
            result.push_back(shard);
    return result;
}

void Client::let_go(const OperationPtr& operation) {
    const std::lock_guard lock(mutex_);
    for (Lane& lane : shards_) {
        const auto lends = [&](const Request& request) {
            return request.operation == operation && !request.lent.empty();
        };
        // Half a frame may have gone: the rest goes from a copy.
        if (lane.connection && std::ranges::any_of(lane.requests, lends)) lane.connection->keep_lent();
        for (Request& request : lane.requests) {
            if (request.operation != operation) continue;
            request.target = {};
            request.arrived = nullptr;
            if (request.lent.empty()) continue;
            request.owned.insert(request.owned.end(), request.lent.begin(), request.lent.end());
            request.lent = {};
            request.kept = {};
        }
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

}  // namespace unisono::server
