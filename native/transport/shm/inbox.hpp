#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/fd.hpp"
#include "transport/shm/bell.hpp"
#include "transport/shm/board.hpp"
#include "transport/shm/heap.hpp"
#include "transport/shm/segment.hpp"

/// What the ranks of one host share. Every rank has an inbox, and in it a ring for each of the host's ranks
/// to write to:
///
///     InboxHeader | Bell | Board | stage | stage | RingControl, bytes | RingControl, bytes | … | heap
///
/// each on cache lines of its own. The heap is for the rank's arrays; it is reserved, not allocated.

namespace unisono {

constexpr std::size_t cache_line = 64;

/// Written once, before the segment is given to a peer.
struct alignas(cache_line) InboxHeader {
    std::uint64_t magic;
    std::uint32_t version;
    std::uint32_t ranks;
    std::uint64_t ring_bytes;
    std::uint64_t stage_bytes;
    std::uint64_t heap_bytes;
    std::int64_t pid;
    std::uint64_t probe;       // an address in the owner's own memory
    std::uint64_t probe_word;  // what is there
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

/// How large the parts of an inbox are. The rings' size has to be a power of two from 64, the others
/// multiples of 64.
struct InboxSizes {
    int ranks;  // itself included
    std::size_t ring_bytes;
    std::size_t stage_bytes = 0;
    std::size_t heap_bytes = 0;

    /// Without the heap.
    std::size_t allocated() const;
};

class Inbox {
  public:
    static Inbox create(const InboxSizes& sizes);

    /// A peer's inbox. SystemError if the descriptor is not of one.
    static Inbox open(Fd descriptor);

    int ranks() const { return sizes_.ranks; }
    std::size_t ring_bytes() const { return sizes_.ring_bytes; }
    /// The owner's process, as that process calls itself (pid namespaces may differ).
    std::int64_t pid() const { return pid_; }
    int descriptor() const { return segment_.descriptor(); }

    /// Rung for the owner of the inbox.
    Bell& bell() const;
    /// What `writer` writes and the owner of the inbox reads.
    Ring ring(int writer) const;
    Board& board() const;
    /// Memory of the owner that others may use in this call.
    std::span<std::byte> stage(std::uint64_t call) const;
    std::span<std::byte> heap_bytes() const;
    /// The owner's.
    Heap& heap() const { return *heap_; }
    /// Can this process read the private memory of the owner's, which it knows as `process`?
    bool owner_is_readable(pid_t process) const;

  private:
    explicit Inbox(Segment segment);

    Segment segment_;
    // Copies: a peer may write to the header.
    InboxSizes sizes_{};
    std::int64_t pid_ = 0;
    std::uint64_t probe_ = 0;
    std::uint64_t probe_word_ = 0;
    // The owner's, nothing elsewhere.
    std::unique_ptr<Heap> heap_;
    std::unique_ptr<std::uint64_t> word_;
};

}  // namespace unisono
