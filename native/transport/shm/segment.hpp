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
    /// not a SIGBUS later.
    static Segment create(std::size_t size);

    /// The segment behind a descriptor that came from a peer. Refuses what is not a whole segment: an
    /// access to memory that the peer cut off or never allocated would kill this process.
    static Segment map(Fd descriptor);

    Segment(Segment&& other) noexcept;
    Segment& operator=(Segment&&) = delete;
    ~Segment();

    std::span<std::byte> bytes() const { return bytes_; }

    /// What a peer needs in order to map it.
    int descriptor() const { return descriptor_.number(); }

  private:
    Segment(Fd descriptor, std::size_t size);

    Fd descriptor_;
    std::span<std::byte> bytes_;
};

}  // namespace unisono
