#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <memory>

#include "bind/engine_python.hpp"
#include "execute/queue.hpp"

namespace unisono::bind {

/// Completes an operation, from any thread, once. One that is dropped before it has completes it with a
/// failure.
class Token {
  public:
    Token(std::shared_ptr<engine::Engine> engine, engine::Operation& operation)
        : engine_(std::move(engine)), operation_(&operation) {
        engine_->remember(operation);
    }
    Token(const Token&) = delete;
    Token& operator=(const Token&) = delete;
    ~Token();

    /// False if it was completed before.
    bool complete(nanobind::handle result);
    bool fail(const nanobind::object& error, bool cancelled = false);
    /// When the call ends, without the interpreter. `outcome` is called by who asks for the result, or if the
    /// call failed, by a thread of the engine.
    bool complete_with(Ticket& ticket, nanobind::handle outcome);

    engine::Engine& engine() const { return *engine_; }
    engine::Operation& operation() const { return *operation_; }

  private:
    bool is_first();

    std::shared_ptr<engine::Engine> engine_;
    engine::Operation* operation_;
    std::atomic<bool> called_ = false;
};

void tokens(nanobind::module_& module);

}  // namespace unisono::bind
