#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>

#include "base/fork.hpp"
#include "engine/crew.hpp"
#include "engine/lane.hpp"
#include "engine/log.hpp"
#include "engine/operation.hpp"
#include "engine/pool.hpp"
#include "engine/stuck.hpp"
#include "engine/variable.hpp"

namespace unisono::engine {

/// A wait inside of an operation that could never end.
class NeverEnds : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// What is pushed.
struct Order {
    const Body* body;
    void* subject = nullptr;
    void* title = nullptr;
    std::span<const Use> uses;  // no variable twice
    std::span<const Demand> demands = {};
    std::int32_t priority = 0;
    std::uint32_t site = 0;
};

/// Runs operations as far as their variables allow, so that the result is as if they had run one after the
/// other in the order of their pushes.
class Engine : public std::enable_shared_from_this<Engine> {
  public:
    struct Options {
        int threads = 1;
        bool logs = false;
        std::unique_ptr<Interpreter> interpreter = nullptr;
        /// Called for operations that nobody needs any more; by default they are forgotten at once.
        std::function<void(Engine&, Operation&)> dispose = {};
        /// Called from any thread, also with the lock of those who push.
        std::function<std::string(const Operation&)> name_of = {};
    };
    static std::shared_ptr<Engine> make(Options options);
    Engine(Options options);
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;
    ~Engine();

    Variable& variable(std::string name);
    void forget(Variable& variable);

    /// The caller gets a reference to it. Nothing more may be pushed after `close`.
    Operation& push(const Order& order);

    /// Ends an operation that has begun; from any thread, once. `last_act` if this thread of the crew does
    /// nothing else before it looks for work.
    void finish(Operation& operation, FailurePtr failure, bool last_act = false);

    /// Has the body of an operation that has begun run once more, by a thread of the crew.
    void resume(Operation& operation);

    /// False if it has begun or is over.
    bool cancel(Operation& operation);

    /// Whoever calls `forget` for the last time has it disposed of.
    void remember(Operation& operation) { operation.references.fetch_add(1, std::memory_order_relaxed); }
    void forget(Operation& operation);
    /// The last step of disposing.
    void give_back(Operation& operation) { pool_.give_back(operation); }

    using LookUp = std::function<bool()>;
    /// Waits for an operation, looking up now and then; false if that says to wait no longer. Inside of an
    /// operation another thread takes its place; NeverEnds where it would wait for itself in the end.
    bool wait(Operation& operation, const LookUp& look_up);
    /// Until nothing is under way; the same.
    bool wait_until_idle(const LookUp& look_up);
    /// An operation that does nothing, when all that was pushed so far on these variables is through.
    Operation& mark(std::span<const Use> uses, std::uint32_t site = 0);
    /// Makes variables whole that have failed.
    Operation& heal(std::span<const Use> uses, std::uint32_t site = 0);

    /// What failed first, in the order of pushes, of what nobody was told yet.
    FailurePtr take_failure();
    void was_told(const Failure& failure);

    /// The operation that this thread runs; if it is one of this engine.
    static Operation* current_of_all();
    static Engine* of_current();
    Operation* current() const;
    std::uint64_t outstanding() const { return outstanding_.load(std::memory_order_relaxed); }

    /// What has not begun is cancelled from now on.
    void abandon() { abandoned_ = true; }
    /// Threads end when nothing is under way. Says whether they have, in that time.
    bool close(std::chrono::steady_clock::time_point until);
    void stop();
    bool closed() const { return closed_; }

    struct Live {
        std::uint64_t serial;
        std::string name;
        std::uint32_t site;
        std::int32_t priority;
        bool is_running = false;
        bool may_run = false;
        std::vector<Record::Touch> touches = {};
    };
    /// What is under way, in the order of pushes.
    std::vector<Live> live();
    /// Operations that were logged, in that order, also those under way. Records stay as long as the engine.
    std::vector<const Record*> logged();

    Interpreter* interpreter() { return options_.interpreter.get(); }
    Crew& crew() { return crew_; }
    const Origin& origin() const { return origin_; }

  private:
    class Inside;
    using Begin = std::function<std::shared_ptr<Event>()>;
    struct Turned {
        std::vector<Operation*> over;  // to be ended without having run
        std::vector<Operation*> ready;
    };

    void execute(Operation& operation);
    void fill(Operation& operation, const Order& order);
    void log(Operation& operation);
    void granted(Operation& operation, Turned& turned);
    void end(Operation& operation, FailurePtr failure, Turned& turned);
    void settle(Turned& turned, bool last_act);
    void tell(Operation& operation);
    void saw(const FailurePtr& failure);
    FailurePtr failure_before(Operation& operation) const;
    FailurePtr cancellation(const Operation& operation) const;
    std::string name_of(const Operation& operation) const {
        return options_.name_of ? options_.name_of(operation) : operation.body->name();
    }
    bool sleep(Event& event, const LookUp& look_up);
    std::shared_ptr<Event> end_of(Operation& operation);
    std::shared_ptr<Event> idleness();
    bool wait_here(Operation* awaited, const Begin& begin, const LookUp& look_up);
    void add_to(Moment& moment);
    void bury();

    Options options_;
    Origin origin_;
    std::mutex pushing_;  // who pushes, or walks through the operations
    Pool pool_;
    std::uint64_t serials_ = 0;
    std::uint64_t variables_ = 0;
    Stack<Variable> graves_;
    std::deque<Record> log_;
    Lanes lanes_;
    std::atomic<std::uint64_t> outstanding_ = 0;
    std::atomic<bool> abandoned_ = false;
    std::atomic<bool> closed_ = false;
    std::mutex idling_;  // of those who wait for that, and of failures
    std::vector<std::shared_ptr<Event>> idle_;
    std::map<std::uint64_t, FailurePtr> untold_;  // the first ones
    Crew crew_;                                   // the last: its threads use all of the above
};

}  // namespace unisono::engine
