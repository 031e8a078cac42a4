#include "execute/queue.hpp"

#include <chrono>
#include <utility>

namespace unisono {

namespace {

constexpr auto between_looks = std::chrono::milliseconds(20);

}  // namespace

bool Ticket::done() const {
    const std::lock_guard lock(mutex_);
    return done_;
}

bool Ticket::wait(const std::function<bool()>& look_up) const {
    std::unique_lock lock(mutex_);
    while (!done_) {
        if (ended_.wait_for(lock, between_looks, [this] { return done_; })) break;
        lock.unlock();
        if (!look_up()) return false;
        lock.lock();
    }
    return true;
}

void Ticket::rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
}

void Ticket::finish(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    done_ = true;
    ended_.notify_all();
}

CallQueue::~CallQueue() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
        news_.notify_all();
    }
    if (worker_.joinable()) worker_.join();
}

std::shared_ptr<Ticket> CallQueue::run_or_start(Call call) {
    {
        const std::lock_guard lock(mutex_);
        if (busy_ || !waiting_.empty()) return enqueue(std::move(call));
        busy_ = true;
    }
    struct Done {
        CallQueue& queue;
        ~Done() {
            const std::lock_guard lock(queue.mutex_);
            queue.busy_ = false;
            if (!queue.waiting_.empty()) queue.news_.notify_all();
        }
    } const done{*this};
    call();
    return nullptr;
}

std::shared_ptr<Ticket> CallQueue::start(Call call) {
    const std::lock_guard lock(mutex_);
    return enqueue(std::move(call));
}

std::shared_ptr<Ticket> CallQueue::enqueue(Call call) {
    if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
    waiting_.push_back({std::move(call), std::make_shared<Ticket>()});
    news_.notify_all();
    return waiting_.back().ticket;
}

void CallQueue::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        news_.wait(lock, [this] { return !busy_ && (closing_ || !waiting_.empty()); });
        if (waiting_.empty()) return;
        const Started next = std::move(waiting_.front());
        waiting_.pop_front();
        busy_ = true;
        lock.unlock();
        std::exception_ptr failure;
        try {
            next.call();
        } catch (...) {
            failure = std::current_exception();
        }
        lock.lock();
        busy_ = false;  // first: who has waited for the ticket finds an idle queue
        lock.unlock();
        next.ticket->finish(failure);
        lock.lock();
    }
}

}  // namespace unisono
