#include "execute/queue.hpp"

#include <sys/eventfd.h>

#include <chrono>
#include <deque>
#include <thread>
#include <utility>

namespace unisono {

namespace {

constexpr auto between_looks = std::chrono::milliseconds(20);

}  // namespace

bool Ticket::done() const { return done_.load(std::memory_order_acquire); }

bool Ticket::wait(const std::function<bool()>& look_up) const {
    if (done()) return true;
    origin_.require("this call");
    std::unique_lock lock(mutex_);
    while (!done_) {
        if (ended_.wait_for(lock, between_looks, [this] { return done(); })) break;
        lock.unlock();
        if (!look_up()) return false;
        origin_.require("this call");  // a signal handler may have forked
        lock.lock();
    }
    return true;
}

std::shared_ptr<Ticket> Ticket::failed(std::exception_ptr failure) {
    auto ticket = std::make_shared<Ticket>();
    ticket->finish(std::move(failure));
    return ticket;
}

void Ticket::rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
}

void Ticket::finish(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
    done_.store(true, std::memory_order_release);
    ended_.notify_all();
    for (const auto& event : events_) ::eventfd_write(event.number(), 1);
    events_.clear();
}

void Ticket::notify(Fd event) {
    origin_.require("this call");
    const std::lock_guard lock(mutex_);
    if (done_)
        ::eventfd_write(event.number(), 1);
    else
        events_.push_back(std::move(event));
}

struct CallQueue::State {
    struct Started {
        Call call;
        std::shared_ptr<Ticket> ticket;
    };

    mutable std::mutex mutex;
    std::condition_variable news;
    bool busy = false;  // somebody runs a call
    bool has_thread = false;
    bool closing = false;
    std::deque<Started> waiting;
};

CallQueue::CallQueue() : state_(std::make_shared<State>()) {}

CallQueue::~CallQueue() {
    if (!origin_.is_here()) return;
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
    state_->news.notify_all();
}

bool CallQueue::busy() const {
    if (!origin_.is_here()) return false;
    const std::lock_guard lock(state_->mutex);
    return state_->busy || !state_->waiting.empty();
}

CallQueue::Turn CallQueue::try_begin() {
    origin_.require("this communicator");
    const std::lock_guard lock(state_->mutex);
    if (state_->busy || !state_->waiting.empty()) return Turn(nullptr);
    state_->busy = true;
    return Turn(state_.get());
}

CallQueue::Turn::~Turn() {
    if (state_ == nullptr || !origin_.is_here()) return;
    const std::lock_guard lock(state_->mutex);
    state_->busy = false;
    if (!state_->waiting.empty()) state_->news.notify_all();
}

std::shared_ptr<Ticket> CallQueue::run_or_start(Call call) {
    if (const auto turn = try_begin()) {
        call();
        return nullptr;
    }
    return start(std::move(call));
}

std::shared_ptr<Ticket> CallQueue::start(Call call) {
    origin_.require("this communicator");
    const std::lock_guard lock(state_->mutex);
    return enqueue(state_, std::move(call));
}

std::shared_ptr<Ticket> CallQueue::enqueue(const std::shared_ptr<State>& state, Call call) {
    if (!std::exchange(state->has_thread, true)) std::thread([state] { work(state); }).detach();
    state->waiting.push_back({std::move(call), std::make_shared<Ticket>()});
    state->news.notify_all();
    return state->waiting.back().ticket;
}

void CallQueue::work(const std::shared_ptr<State>& state) {
    std::unique_lock lock(state->mutex);
    for (;;) {
        state->news.wait(lock, [&] { return !state->busy && (state->closing || !state->waiting.empty()); });
        if (state->waiting.empty()) return;
        State::Started next = std::move(state->waiting.front());
        state->waiting.pop_front();
        state->busy = true;
        lock.unlock();
        std::exception_ptr failure;
        try {
            next.call();
        } catch (...) {
            failure = std::current_exception();
        }
        next.call = nullptr;  // may be the last one to know the queue, whose end takes the lock
        lock.lock();
        state->busy = false;  // first: who has waited for the ticket finds an idle queue
        lock.unlock();
        next.ticket->finish(failure);
        lock.lock();
    }
}

}  // namespace unisono
