#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/deque.hpp"
#include "engine/interpreter.hpp"
#include "engine/operation.hpp"
#include "engine/ready.hpp"
#include "engine/sleepers.hpp"

namespace unisono::engine {

/// The threads that run operations. Each has a deque of its own and steals from the others; what needs the
/// interpreter, has a priority, or comes from elsewhere is for whoever comes first. Of those that want the
/// interpreter one waits at its door; the others do what they can without.
class Crew {
  public:
    /// The most threads there can be, with those that take the places of operations that wait inside.
    static constexpr int most = 128;

    using Execute = std::function<void(Operation&)>;

    Crew(int threads, Interpreter* interpreter, Execute execute);
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    /// Each thread keeps this until it ends.
    void start(const std::shared_ptr<void>& keep);

    /// It may run now. `next_here` if this thread will look for work at once: then nobody is woken for it.
    void submit(Operation& operation, bool next_here);

    /// From 0 up; -1 for one that is not in a crew.
    static int number_of_this_thread() { return this_member == nullptr ? -1 : this_member->number; }

    /// There is something to tidy up.
    void nudge() { sleepers_.wake_one(); }

    /// While it lives, another thread does what this one would, which waits.
    class Replacement {
      public:
        explicit Replacement(Crew& crew);
        Replacement(const Replacement&) = delete;
        Replacement& operator=(const Replacement&) = delete;
        ~Replacement();
        /// False if there are too many already.
        explicit operator bool() const { return crew_ != nullptr; }

      private:
        Crew* crew_;
    };

    /// When there is nothing to do, the threads end. Says whether they have, until then.
    void stop();
    bool gone_by(std::chrono::steady_clock::time_point time);

  private:
    struct Member {
        Deque deque;
        bool taken = false;
        int number = 0;
    };

    bool hire();
    void work(Member& me);
    Operation* next(Member& me);
    Operation* stolen(const Member& me);
    bool has_work() const;
    bool python_is_next() const;
    bool wants_interpreter() const;
    void use_interpreter(Member& me);
    bool is_surplus();
    void leave(Member& me);

    static thread_local Crew* of_this_thread;
    static thread_local Member* this_member;
    static thread_local bool inside;  // of the interpreter

    int threads_;
    Interpreter* interpreter_;
    Execute execute_;
    Ready native_;
    Ready python_;
    std::atomic<bool> at_door_ = false;  // somebody waits for the interpreter
    Sleepers sleepers_;
    std::array<Member, most> members_;
    std::atomic<int> used_ = 0;  // of these, at most
    std::atomic<int> surplus_ = 0;
    std::atomic<bool> stopping_ = false;
    std::mutex mutex_;  // of what follows
    std::condition_variable left_;
    int hired_ = 0;
    std::weak_ptr<void> keep_;
};

}  // namespace unisono::engine
