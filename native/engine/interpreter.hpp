#pragma once

namespace unisono::engine {

/// What operations need that are written in Python. A thread enters it for several of them, because to enter
/// takes longer than a short operation.
class Interpreter {
  public:
    virtual ~Interpreter() = default;

    virtual void enter() = 0;
    virtual void leave() = 0;
    /// Before a thread ends that has been inside.
    virtual void forget_thread() = 0;
    /// Lets go of what operations had that are through. Inside.
    virtual void tidy() = 0;
    virtual bool is_tidy() const = 0;
    /// For the last time, from any thread.
    virtual void end() = 0;
};

}  // namespace unisono::engine
