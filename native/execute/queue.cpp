#include "execute/queue.hpp"

#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>

namespace unisono {

namespace {

constexpr auto between_looks = std::chrono::milliseconds(20);
constexpr int yields_before_sleep = 100;

/// After a call was started, the thread looks for more this often, and so many times, before it sleeps until
/// it is woken: to wake it for a call that is waited for at once costs both of them more than the call. While
/// who waits runs the calls itself, it looks ever less often: each look may push a rank from its core.
constexpr auto between_polls = std::chrono::microseconds(250);
constexpr auto most_between_polls = 16 * between_polls;
constexpr int polls = 20;

}  // namespace

struct Ticket::Queue {
    struct Started {
        CallQueue::Call call;
        std::shared_ptr<Ticket> ticket;
    };

    mutable std::mutex mutex;
    std::condition_variable news;
    /// 1 if somebody runs a call, and 2 for each one that waits. Nothing is under way if it is 0: that is
    /// how a call begins and ends that meets no other one. All else changes it with the lock held.
    std::atomic<std::uint32_t> under_way{0};
    bool has_thread = false;
    bool sleeps = false;  // the thread, until it is woken
    int polls_left = 0;   // before it does
    bool closing = false;
    std::deque<Started> waiting;

    bool busy() const { return under_way.load(std::memory_order_acquire) % 2 == 1; }
    bool may_run() const { return !busy() && !waiting.empty(); }
    void wait_for_news(std::unique_lock<std::mutex>& lock);
    void run_next(std::unique_lock<std::mutex>& lock, bool in_background, const Told& told = {});
};

bool Ticket::done() const { return done_.load(std::memory_order_acquire); }

bool Ticket::wait(const std::function<bool()>& look_up) const {
    if (done()) return true;
    origin_.require("this call");
    // A wake-up from sleep takes as long as many short calls.
    for (int yield = 0; yield < yields_before_sleep && !done(); ++yield) ::sched_yield();
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

void Ticket::help(const Told& told, bool in_background) const {
    const auto queue = queue_.lock();
    if (!queue || !origin_.is_here()) return;
    std::unique_lock lock(queue->mutex);
    while (!done() && queue->may_run()) queue->run_next(lock, in_background, told);
}

void Ticket::rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
}

void Ticket::finish(std::exception_ptr failure) {
    std::vector<std::function<void(bool)>> told;
    {
        const std::lock_guard lock(mutex_);
        failure_ = std::move(failure);
        done_.store(true, std::memory_order_release);
        ended_.notify_all();
        for (const auto& event : events_) ::eventfd_write(event.number(), 1);
        events_.clear();
        told.swap(told_);
    }
    for (const auto& tell : told) tell(!failure_);
}

void Ticket::then(std::function<void(bool succeeded)> tell) {
    {
        const std::lock_guard lock(mutex_);
        if (!done_) {
            told_.push_back(std::move(tell));
            return;
        }
    }
    tell(!failure_);
}

void Ticket::notify(Fd event) {
    origin_.require("this call");
    const std::lock_guard lock(mutex_);
    if (done_)
        ::eventfd_write(event.number(), 1);
    else
        events_.push_back(std::move(event));
}

CallQueue::CallQueue() : state_(std::make_shared<State>()) {}

CallQueue::~CallQueue() {
    if (!origin_.is_here()) return;
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
    state_->news.notify_all();
}

bool CallQueue::busy() const {
    return origin_.is_here() && state_->under_way.load(std::memory_order_acquire) != 0;
}

CallQueue::Turn CallQueue::try_begin() {
    origin_.require("this communicator");
    std::uint32_t nothing = 0;
    // Acquire, pairs with the end of the call before this one.
    const bool begun = state_->under_way.compare_exchange_strong(nothing, 1, std::memory_order_acquire);
    return Turn(begun ? state_.get() : nullptr);
}

CallQueue::Turn::~Turn() {
    if (state_ == nullptr || !origin_.is_here()) return;
    if (state_->under_way.fetch_sub(1, std::memory_order_acq_rel) == 1) return;
    // With the lock: who found it busy sleeps by now, or looks again.
    const std::lock_guard lock(state_->mutex);
    state_->news.notify_all();
}

std::shared_ptr<Ticket> CallQueue::run_or_start(Call call) {
    if (const auto turn = try_begin()) {
        call(false);
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
    const auto ticket = std::make_shared<Ticket>();
    ticket->queue_ = state;
    state->waiting.push_back({std::move(call), ticket});
    state->under_way.fetch_add(2, std::memory_order_acq_rel);
    state->polls_left = polls;
    if (state->sleeps) state->news.notify_all();
    return ticket;
}

void CallQueue::work(const std::shared_ptr<State>& state) {
    std::unique_lock lock(state->mutex);
    for (;;) {
        state->wait_for_news(lock);
        if (state->waiting.empty()) return;
        state->run_next(lock, true);
    }
}

void Ticket::Queue::wait_for_news(std::unique_lock<std::mutex>& lock) {
    const auto there_are = [this] { return may_run() || (closing && !busy()); };
    for (auto interval = between_polls; polls_left > 0; --polls_left) {
        if (news.wait_for(lock, interval, there_are)) return;
        interval = busy() ? std::min(2 * interval, most_between_polls) : between_polls;
    }
    sleeps = true;
    news.wait(lock, there_are);
    sleeps = false;
}

void Ticket::Queue::run_next(std::unique_lock<std::mutex>& lock, bool in_background, const Told& told) {
    Started next = std::move(waiting.front());
    waiting.pop_front();
    under_way.fetch_sub(1, std::memory_order_acq_rel);  // one less waits, and it is busy
    lock.unlock();
    std::exception_ptr failure;
    try {
        next.call(in_background);
    } catch (...) {
        failure = told ? told(std::current_exception()) : std::current_exception();
    }
    next.call = nullptr;  // may be the last one to know the queue, whose end takes the lock
    lock.lock();
    under_way.fetch_sub(
        1, std::memory_order_acq_rel);  // first: who has waited for the ticket finds an idle queue
    if (closing || !waiting.empty()) news.notify_all();
    lock.unlock();
    next.ticket->finish(failure);
    lock.lock();
}

}  // namespace unisono
