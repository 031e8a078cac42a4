#pragma once

namespace unisono {

/// Who makes a call. The core tells it what it may have to know meanwhile.
class Caller {
  public:
    Caller() = default;
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    virtual ~Caller() = default;

    /// The call will take a while, because it moves many bytes or waits: others may use what the caller has.
    /// Told once or more often.
    virtual void takes_a_while() {}

    /// Now and then while it waits. May throw, which ends the call.
    virtual void look_up() {}
};

}  // namespace unisono
