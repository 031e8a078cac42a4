#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fd.hpp"
#include "transport/shm/bell.hpp"
#include "transport/shm/segment.hpp"

/// What the ranks of one host share. Every rank has an inbox, and in it a ring for each of the host's ranks
/// to write to:
///
///     InboxHeader | Bell | RingControl, bytes | RingControl, bytes | …        each on cache lines of its own

namespace unisono {

constexpr std::size_t cache_line = 64;

/// Written once, before the segment is given to a peer.
struct alignas(cache_line) InboxHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t ranks;
    std::uint64_t ring_bytes;
    std::int64_t pid;
};

/// Counts of bytes since the beginning; a byte's place is its number modulo the ring's size.
/// The first line is written by the producer only, the second one by the consumer only.
struct RingControl {
    alignas(cache_line) std::atomic<std::uint64_t> tail{0};  // bytes written
    std::atomic<std::uint32_t> producer_closed{0};
    alignas(cache_line) std::atomic<std::uint64_t> head{0};  // bytes read
    std::atomic<std::uint32_t> consumer_closed{0};
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share it");

struct Ring {
    RingControl& control;
    std::span<std::byte> bytes;
};

/// The size of an inbox for `ranks` ranks (itself included); the rings' size has to be a power of two
/// from 64.
std::size_t inbox_size(int ranks, std::size_t ring_bytes);

class Inbox {
  public:
    static Inbox create(int ranks, std::size_t ring_bytes);

    /// A peer's inbox. SystemError if the descriptor is not of one.
    static Inbox open(Fd descriptor);

    int ranks() const { return ranks_; }
    std::size_t ring_bytes() const { return ring_bytes_; }
    /// The owner's process, as that process calls itself (pid namespaces may differ).
    std::int64_t pid() const { return pid_; }
    int descriptor() const { return segment_.descriptor(); }

    /// Rung for the owner of the inbox.
    Bell& bell() const;
    /// What `writer` writes and the owner of the inbox reads.
    Ring ring(int writer) const;

  private:
    explicit Inbox(Segment segment);

    Segment segment_;
    // Copies: a peer may write to the header.
    int ranks_ = 0;
    std::size_t ring_bytes_ = 0;
    std::int64_t pid_ = 0;
};

}  // namespace unisono
