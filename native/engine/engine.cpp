#include "engine/engine.hpp"

#include <algorithm>

namespace unisono::engine {

namespace {

/// Failures that are kept for who asks later; a program that fails a million times need not hear of all.
constexpr std::size_t most_untold = 64;

thread_local Engine* engine_of_this_thread = nullptr;
thread_local Operation* operation_of_this_thread = nullptr;

/// Does nothing, so that who waits for it knows that its turn has come.
class Mark final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override { engine.finish(operation, nullptr); }
    bool is_immediate() const override { return true; }
    bool only_awaits() const override { return true; }
    const char* name() const override { return "wait"; }
};

class Heal final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override { engine.finish(operation, nullptr); }
    bool is_immediate() const override { return true; }
    bool heals() const override { return true; }
    const char* name() const override { return "restore"; }
};

const Mark the_mark;
const Heal the_healing;

Waiter* over() {
    static Waiter mark{};
    return &mark;
}

}  // namespace

Nanoseconds now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Engine::Engine(Options options)
    : options_(std::move(options)),
      crew_(options_.threads, options_.interpreter.get(), [this](Operation& each) { execute(each); }) {}

std::shared_ptr<Engine> Engine::make(Options options) {
    auto engine = std::make_shared<Engine>(std::move(options));
    engine->crew_.start(engine);
    return engine;
}

Engine::~Engine() {
    bury();
    if (options_.interpreter) options_.interpreter->end();
}

Variable& Engine::variable(std::string name) {
    origin_.require("this engine");
    const std::lock_guard lock(pushing_);
    return *new Variable(std::move(name), ++variables_);
}

void Engine::forget(Variable& variable) {
    // Not deleted here: who walks through the operations reads names.
    if (variable.references.fetch_sub(1, std::memory_order_acq_rel) == 1) graves_.put(variable);
}

void Engine::bury() {
    for (auto* each = graves_.take_all(); each != nullptr;) delete std::exchange(each, each->next);
}

Operation& Engine::push(const Order& order) {
    origin_.require("this engine");
    Turned turned;
    Operation* operation;
    {
        const std::lock_guard lock(pushing_);
        if (!graves_.empty()) bury();
        operation = &pool_.take();
        fill(*operation, order);
        if (options_.logs && !order.body->is_immediate()) log(*operation);
        operation->state.store(State::pending, std::memory_order_release);
        outstanding_.fetch_add(1, std::memory_order_relaxed);
        for (auto& access : operation->accesses())
            if (access.variable->append(access)) operation->missing.fetch_sub(1, std::memory_order_relaxed);
    }
    if (operation->missing.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        granted(*operation, turned);
        settle(turned, false);
    }
    return *operation;
}

void Engine::fill(Operation& operation, const Order& order) {
    operation.references.store(2, std::memory_order_relaxed);  // ours until it is over, and the caller's
    operation.priority = order.priority;
    operation.site = order.site;
    operation.serial = ++serials_;
    operation.body = order.body;
    operation.subject = order.subject;
    operation.title = order.title;
    operation.result = nullptr;
    operation.record = nullptr;
    operation.has_lanes = false;
    operation.result_is_call = false;
    operation.waiters.store(nullptr, std::memory_order_relaxed);
    operation.count = static_cast<std::uint32_t>(order.uses.size());
    operation.many =
        operation.count > Operation::places ? std::make_unique<Access[]>(operation.count) : nullptr;
    operation.sights = order.body->only_awaits() ? std::make_unique<Sight[]>(operation.count) : nullptr;
    operation.missing.store(operation.count + 1, std::memory_order_relaxed);
    std::size_t turns = 0;
    for (std::size_t i = 0; i < order.uses.size(); ++i) {
        auto& [variable, mode] = order.uses[i];
        variable->references.fetch_add(1, std::memory_order_relaxed);
        operation.accesses()[i] = {variable, &operation, nullptr, mode};
        turns += mode == Mode::accumulate ? 1 : 0;
    }
    operation.demand_count = static_cast<std::uint32_t>(order.demands.size() + turns);
    if (operation.demand_count == 0) {
        operation.demands.reset();
        return;
    }
    operation.demands = std::make_unique<Demand[]>(operation.demand_count);
    auto* demand = std::ranges::copy(order.demands, operation.demands.get()).out;
    for (const auto& [variable, mode] : order.uses)
        if (mode == Mode::accumulate) *demand++ = {variable->turn(), 1};
}

void Engine::log(Operation& operation) {
    auto& record = log_.emplace_back();
    record.serial = operation.serial;
    record.name = name_of(operation);
    record.site = operation.site;
    record.priority = operation.priority;
    for (const auto& access : operation.accesses())
        record.touches.push_back({access.variable->number(), access.mode, access.variable->name()});
    record.demands.assign(operation.demands.get(), operation.demands.get() + operation.demand_count);
    record.pushed = now();
    operation.record = &record;
}

FailurePtr Engine::cancellation(const Operation& operation) const {
    return std::make_shared<Failure>(
        Failure{operation.serial, nullptr, nullptr, true, name_of(operation), operation.site});
}

FailurePtr Engine::failure_before(Operation& operation) const {
    FailurePtr failure;
    if (operation.body->heals()) return failure;
    for (const auto& access : operation.accesses())
        if (const auto& other = access.mode == Mode::await ? operation.sight(access).failure
                                                           : access.variable->failure(access.mode))
            failure = first_of(failure, other);
    return failure;
}

/// It has all of its variables. One that must not run does not wait for lanes.
void Engine::granted(Operation& operation, Turned& turned) {
    if (operation.record != nullptr) operation.record->ready = now();
    if (auto failure = failure_before(operation)) {
        operation.failure = std::move(failure);
        operation.begin();
        turned.over.push_back(&operation);
    } else if (operation.body->is_immediate()) {
        operation.begin();
        turned.over.push_back(&operation);
    } else if (operation.demand_count == 0 || lanes_.acquire(operation)) {
        turned.ready.push_back(&operation);
    }
}

void Engine::execute(Operation& operation) {
    const bool resumes = operation.state.load(std::memory_order_acquire) == State::running;
    if (!resumes &&
        (abandoned_ ? operation.cancel() || operation.state == State::cancelled : !operation.begin())) {
        finish(operation, cancellation(operation), true);
        return;
    }
    if (operation.record != nullptr && !resumes) {
        operation.record->thread = Crew::number_of_this_thread();
        operation.record->begun = now();
    }
    auto* const engine_before = std::exchange(engine_of_this_thread, this);
    auto* const operation_before = std::exchange(operation_of_this_thread, &operation);
    operation.body->run(*this, operation);
    engine_of_this_thread = engine_before;
    operation_of_this_thread = operation_before;
}

/// It takes its turn in the queues of its variables all the same. It is over at once if it had that, and
/// waited for a lane.
bool Engine::cancel(Operation& operation) {
    if (!operation.cancel()) return false;
    Turned turned;
    if (lanes_.withdraw(operation, turned.ready)) {
        operation.failure = cancellation(operation);
        turned.over.push_back(&operation);
    }
    settle(turned, false);
    return true;
}

void Engine::resume(Operation& operation) {
    if (closed_)
        finish(operation, cancellation(operation));
    else
        crew_.submit(operation, false);
}

/// A child that was forked inside of an operation runs none: it has left the engine.
Engine* Engine::of_current() {
    auto* const engine = engine_of_this_thread;
    return engine != nullptr && engine->origin_.is_here() ? engine : nullptr;
}

Operation* Engine::current_of_all() { return of_current() == nullptr ? nullptr : operation_of_this_thread; }

Operation* Engine::current() const { return of_current() == this ? operation_of_this_thread : nullptr; }

void Engine::finish(Operation& operation, FailurePtr failure, bool last_act) {
    Turned turned;
    end(operation, std::move(failure), turned);
    settle(turned, last_act);
}

/// Not by recursion: a long chain may fail at once. When the crew has gone, all that is left is cancelled.
void Engine::settle(Turned& turned, bool last_act) {
    for (;;) {
        while (!turned.over.empty()) {
            Operation& next = *turned.over.back();
            turned.over.pop_back();
            end(next, std::move(next.failure), turned);
        }
        if (!closed_ || turned.ready.empty()) break;
        Operation& late = *turned.ready.back();
        turned.ready.pop_back();
        late.cancel();
        end(late, cancellation(late), turned);
    }
    for (auto* const each : turned.ready) crew_.submit(*each, std::exchange(last_act, false));
}

void Engine::end(Operation& operation, FailurePtr failure, Turned& turned) {
    if (auto* const record = operation.record) {
        record->failed = failure != nullptr;
        record->ended = now();
    }
    if (failure && failure->serial == operation.serial) saw(failure);
    const bool heals = operation.body->heals();
    operation.failure = std::move(failure);
    if (operation.has_lanes) lanes_.release(operation, turned.ready);
    for (auto& access : operation.accesses()) {
        Variable& variable = *access.variable;
        Access* next =
            access.mode == Mode::await ? nullptr : variable.release(access, operation.failure, heals);
        while (next != nullptr) {
            Operation& other = *std::exchange(next, next->next)->operation;
            if (other.missing.fetch_sub(1, std::memory_order_acq_rel) == 1) granted(other, turned);
        }
        forget(variable);
    }
    tell(operation);
}

void Engine::tell(Operation& operation) {
    operation.state.store(State::done, std::memory_order_release);
    auto* waiter = operation.waiters.exchange(over(), std::memory_order_acq_rel);
    while (waiter != nullptr) {
        waiter->event->happen();
        delete std::exchange(waiter, waiter->next);
    }
    forget(operation);
    if (outstanding_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const std::lock_guard lock(idling_);
    for (const auto& event : idle_) event->happen();
    idle_.clear();
}

void Engine::forget(Operation& operation) {
    if (operation.references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    operation.failure.reset();
    if (options_.dispose)
        options_.dispose(*this, operation);
    else
        give_back(operation);
}

void Engine::saw(const FailurePtr& failure) {
    if (failure->cancelled) return;
    FailurePtr last;  // let go of without the lock
    const std::lock_guard lock(idling_);
    untold_.emplace(failure->serial, failure);
    if (untold_.size() <= most_untold) return;
    last = std::move(std::prev(untold_.end())->second);
    untold_.erase(std::prev(untold_.end()));
}

void Engine::was_told(const Failure& failure) {
    const std::lock_guard lock(idling_);
    untold_.erase(failure.serial);
}

FailurePtr Engine::take_failure() {
    const std::lock_guard lock(idling_);
    if (untold_.empty()) return nullptr;
    auto first = std::move(untold_.begin()->second);
    untold_.erase(untold_.begin());
    return first;
}

Operation& Engine::mark(std::span<const Use> uses, std::uint32_t site) {
    return push({.body = &the_mark, .uses = uses, .site = site});
}

Operation& Engine::heal(std::span<const Use> uses, std::uint32_t site) {
    return push({.body = &the_healing, .uses = uses, .site = site});
}

void Engine::stop() {
    closed_ = true;
    crew_.stop();
}

bool Engine::close(std::chrono::steady_clock::time_point until) {
    stop();
    return crew_.gone_by(until);
}

}  // namespace unisono::engine
