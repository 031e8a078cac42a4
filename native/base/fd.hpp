#pragma once

#include <unistd.h>

#include <utility>

namespace unisono {

/// Owns a file descriptor.
class Fd {
  public:
    Fd() = default;
    explicit Fd(int number) : number_(number) {}
    Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Fd() {
        if (number_ >= 0) ::close(number_);
    }

    int number() const { return number_; }
    bool valid() const { return number_ >= 0; }

  private:
    int number_ = -1;
};

}  // namespace unisono
