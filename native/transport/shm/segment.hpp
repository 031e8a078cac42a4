#pragma once

#include <cstddef>
#include <span>

#include "base/fd.hpp"

namespace unisono {

/// Memory that processes share, without a name: it lives as long as a descriptor or a mapping of it,
/// so that nothing is left over however its users die.
class Segment {
  public:
    /// New, zeroed memory. All of it exists from here on: a host that is out of memory is an error now,
    /// not a SIGBUS later. What is `reserved` after it has addresses, but no memory yet.
    static Segment create(std::size_t size, std::size_t reserved = 0);

    /// The segment behind a descriptor that came from a peer. Refuses one that may shrink: an access to
    /// memory that the peer cut off would kill this process. So may one to memory that was never allocated:
    /// whoever uses it has to compare.
    static Segment map(Fd descriptor);

    Segment(Segment&& other) noexcept;
    Segment& operator=(Segment&&) = delete;
    ~Segment();

    std::span<std::byte> bytes() const { return bytes_; }

    /// How much of it existed when it was mapped.
    std::size_t allocated() const { return allocated_; }

    /// What a peer needs in order to map it.
    int descriptor() const { return descriptor_.number(); }

  private:
    Segment(Fd descriptor, std::size_t size, std::size_t allocated);

    Fd descriptor_;
    std::size_t allocated_;
    std::span<std::byte> bytes_;
};

}  // namespace unisono
