#pragma once

#include <unistd.h>

#include <utility>

#include "base/fork.hpp"

namespace unisono {

/// Owns a file descriptor. A forked child has none: it is closed there, and its number may be somebody
/// else's.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int number) : number_(number) { fork_state::own(number); }
    Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)), origin_(other.origin_) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(number_, other.number_);
        std::swap(origin_, other.origin_);
        return *this;
    }
    ~Fd() {
        if (!valid()) return;
        fork_state::disown(number_);
        ::close(number_);
    }

    int number() const { return origin_.is_here() ? number_ : -1; }
    bool valid() const { return number() >= 0; }

  private:
    int number_ = -1;
    Origin origin_;
};

}  // namespace unisono
