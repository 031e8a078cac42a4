#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.hpp"
#include "base/fork.hpp"

namespace unisono {

/// A call that was started, and how it ended. A forked child knows what was over before the fork; to wait for
/// more is an error there.
class Ticket {
  public:
    bool done() const;

    /// Waits for the end of the call, looking up in between; false if that says to wait no longer.
    bool wait(const std::function<bool()>& look_up) const;

    using Told = std::function<std::exception_ptr(std::exception_ptr failure)>;

    /// Runs the call, and those before it, in this thread, unless another one does: to be woken by that takes
    /// longer than a short call. In the background, another thread computes meanwhile. `told` makes of a
    /// failure here what all who wait are to know.
    void help(const Told& told, bool in_background = false) const;

    /// Of a call that has ended.
    static std::shared_ptr<Ticket> failed(std::exception_ptr failure);

    /// Throws what the call threw. Only after it is done.
    void rethrow() const;

    /// Writes to an eventfd when the call ends, or now if it has.
    void notify(Fd event);

    /// Called once when the call has ended, in the thread that ran it, or now if it has.
    void then(std::function<void(bool succeeded)> tell);

    struct Queue;

  private:
    friend class CallQueue;
    void finish(std::exception_ptr failure);

    std::weak_ptr<Queue> queue_;
    mutable std::mutex mutex_;
    mutable std::condition_variable ended_;
    Origin origin_;
    std::atomic<bool> done_ = false;  // releases the failure
    std::exception_ptr failure_;
    std::vector<Fd> events_;
    std::vector<std::function<void(bool)>> told_;
};

/// Calls of one executor, in the order in which they were made. A call that is made while no other one is
/// under way runs in the caller's thread, others on a thread of the queue. What a call that was started uses
/// has to exist until it is through.
class CallQueue {
  public:
    /// Is told whether it runs in the background, on a thread of the queue.
    using Call = std::function<void(bool in_background)>;
    using State = Ticket::Queue;

    CallQueue();
    CallQueue(const CallQueue&) = delete;
    CallQueue& operator=(const CallQueue&) = delete;
    /// Calls that were started are not waited for: the thread goes on with them, and ends by itself. In a
    /// forked child there is no such thread, and nothing is done.
    ~CallQueue();

    /// While it lives, no other call is under way.
    class Turn {
      public:
        explicit Turn(State* state) : state_(state) {}
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;
        ~Turn();
        explicit operator bool() const { return state_ != nullptr; }

      private:
        State* state_;
        Origin origin_;
    };

    /// The turn of a call that runs here and now; nothing while others are under way.
    Turn try_begin();

    /// Runs the call here and now, and returns nothing; or, while others are under way, starts it.
    std::shared_ptr<Ticket> run_or_start(Call call);

    /// Comes back at once.
    std::shared_ptr<Ticket> start(Call call);

    /// Is a call under way?
    bool busy() const;

  private:
    static std::shared_ptr<Ticket> enqueue(const std::shared_ptr<State>& state, Call call);
    static void work(const std::shared_ptr<State>& state);

    Origin origin_;
    std::shared_ptr<State> state_;  // which the thread keeps, too
};

}  // namespace unisono
