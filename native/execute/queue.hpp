#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace unisono {

/// A call that was started, and how it ended.
class Ticket {
  public:
    bool done() const;

    /// Waits for the end of the call, looking up in between; false if that says to wait no longer.
    bool wait(const std::function<bool()>& look_up) const;

    /// Throws what the call threw. Only after it is done.
    void rethrow() const;

  private:
    friend class CallQueue;
    void finish(std::exception_ptr failure);

    mutable std::mutex mutex_;
    mutable std::condition_variable ended_;
    bool done_ = false;
    std::exception_ptr failure_;
};

/// Calls of one executor, in the order in which they were made. A call that is made while no other one is
/// under way runs in the caller's thread, others on a thread of the queue. What a call that was started uses
/// has to exist until it is through.
class CallQueue {
  public:
    using Call = std::function<void()>;

    CallQueue() = default;
    CallQueue(const CallQueue&) = delete;
    CallQueue& operator=(const CallQueue&) = delete;
    /// Waits for the calls that are under way.
    ~CallQueue();

    /// Runs the call here and now, and returns nothing; or, while others are under way, starts it.
    std::shared_ptr<Ticket> run_or_start(Call call);

    /// Comes back at once.
    std::shared_ptr<Ticket> start(Call call);

  private:
    struct Started {
        Call call;
        std::shared_ptr<Ticket> ticket;
    };

    std::shared_ptr<Ticket> enqueue(Call call);
    void work();

    std::mutex mutex_;
    std::condition_variable news_;
    bool busy_ = false;  // somebody runs a call
    bool closing_ = false;
    std::deque<Started> waiting_;
    std::thread worker_;
};

}  // namespace unisono
