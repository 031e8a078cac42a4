#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/event.hpp"

namespace unisono::engine {

class Engine;
class Lane;
class Variable;
struct Operation;
struct Record;

/// What an operation does with a variable. Several may read at once; those that accumulate may run in any
/// order, one at a time. One that only awaits comes after those before it, and nobody comes after it.
enum class Mode : std::uint8_t { read, mutate, accumulate, await };

struct Use {
    Variable* variable;
    Mode mode;
};

/// So much of a lane while the operation runs.
struct Demand {
    std::shared_ptr<Lane> lane;
    std::uint64_t amount;
};

/// Why an operation failed, or was not run: what it depends on had failed.
struct Failure {
    std::uint64_t serial;         // of the operation where it began
    std::exception_ptr thrown;    // natively
    std::shared_ptr<void> error;  // or as the interpreter has it
    bool cancelled = false;
    std::string name = {};  // of that operation
    std::uint32_t site = 0;
    bool had_begun = false;  // when it was cancelled
};
using FailurePtr = std::shared_ptr<const Failure>;

/// The one that comes first in the order of pushes, whichever was seen first.
inline const FailurePtr& first_of(const FailurePtr& one, const FailurePtr& other) {
    return !other || (one && one->serial <= other->serial) ? one : other;
}

/// What operations of one kind do. It has no state of its own: that is what the operation's `subject` is for.
class Body {
  public:
    virtual ~Body() = default;

    /// Has the operation finished by somebody, now or later, exactly once. Throws nothing.
    virtual void run(Engine& engine, Operation& operation) const = 0;
    virtual bool needs_interpreter() const { return false; }
    /// Is it run also on variables that have failed, and are they whole afterwards?
    virtual bool heals() const { return false; }
    /// Is it finished as soon as it could begin, by whoever sees that?
    virtual bool is_immediate() const { return false; }
    /// Are its variables to be awaited, and not used?
    virtual bool only_awaits() const { return false; }
    virtual const char* name() const = 0;
};

/// A place in the queue of a variable.
struct Access {
    Variable* variable;
    Operation* operation;
    Access* next;
    Mode mode;
    std::uint32_t position = 0;  // among all of the variable's, modulo 2³²
};

/// What one that awaits a variable knows of it.
struct Sight {
    std::uint32_t remaining = 0;  // accesses before it
    FailurePtr failure = nullptr;
};

enum class State : std::uint8_t { free, pending, running, cancelled, done };

/// Somebody who waits for an operation.
struct Waiter {
    Waiter* next;
    std::shared_ptr<Event> event;
};

/// Lives in the slabs of its engine, which are walked while it may come and go: what the walk reads is
/// atomic, or written by who pushes alone.
struct Operation {
    static constexpr std::size_t places = 3;

    std::atomic<std::uint32_t> references = 0;
    std::atomic<std::uint32_t> missing = 0;  // grants, and one more while it is pushed
    std::atomic<State> state = State::free;
    std::int32_t priority = 0;
    std::uint32_t site = 0;
    std::uint32_t count = 0;  // of accesses
    std::uint32_t demand_count = 0;
    std::atomic<bool> has_lanes = false;
    bool result_is_call = false;  // to be called for the result
    std::uint64_t serial = 0;
    const Body* body = nullptr;
    void* subject = nullptr;  // these belong to the body; with the interpreter's lock, if it needs that
    void* title = nullptr;
    void* result = nullptr;
    FailurePtr failure;         // released by the state `done`
    Operation* next = nullptr;  // in the one list that it is in
    std::atomic<Waiter*> waiters = nullptr;
    std::unique_ptr<Demand[]> demands;  // until the place is used again, as the three below
    std::unique_ptr<Access[]> many;
    std::unique_ptr<Sight[]> sights;  // for each access, if it awaits
    Record* record = nullptr;
    std::array<Access, places> few{};

    std::span<Access> accesses() { return {many ? many.get() : few.data(), count}; }
    Sight& sight(const Access& access) {
        return sights[static_cast<std::size_t>(&access - accesses().data())];
    }
    bool is_over() const {
        const auto now = state.load(std::memory_order_acquire);
        return now == State::done || now == State::free;
    }
    /// False if it was cancelled.
    bool begin() {
        auto expected = State::pending;
        return state.compare_exchange_strong(expected, State::running, std::memory_order_acq_rel);
    }
    bool cancel() {
        auto expected = State::pending;
        return state.compare_exchange_strong(expected, State::cancelled, std::memory_order_acq_rel);
    }
};

static_assert(sizeof(Operation) <= 256, "a million operations are to fit into memory");

/// Higher priorities first, then the order of pushes.
inline bool comes_later(const Operation* one, const Operation* other) {
    return one->priority != other->priority ? one->priority < other->priority : one->serial > other->serial;
}

}  // namespace unisono::engine
