#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <span>

#include "base/fork.hpp"

namespace unisono {

/// Hands out pieces of a shared segment for arrays. Memory that comes back is kept for the next array, up to
/// a limit: the first touch of a page costs more than a reduction of it.
class Heap {
  public:
    /// `bytes` is the mapping of the segment's file from `file_offset` on; nothing of it exists yet.
    Heap(std::span<std::byte> bytes, int descriptor, std::size_t file_offset);
    Heap(const Heap&) = delete;
    Heap& operator=(const Heap&) = delete;

    /// SystemError if there is no memory: pages exist from here on, so that no access is a SIGBUS.
    std::byte* allocate(std::size_t size);
    /// In a forked child nothing comes back: its parent uses the same memory, and may still need it.
    void free(std::byte* address);

    /// Where in the heap an array of this size lies, if it lies there.
    std::optional<std::size_t> offset_of(const std::byte* address, std::size_t size) const;

  private:
    using Pieces = std::map<std::size_t, std::size_t>;  // offset, size

    std::optional<std::size_t> take_free(std::size_t size);
    std::size_t take_hole(std::size_t size);
    void release(Pieces::iterator piece);

    Origin origin_;
    std::span<std::byte> bytes_;
    int descriptor_;
    std::size_t file_offset_;
    std::mutex mutex_;
    Pieces used_;
    Pieces free_;           // have pages; neighbours are joined
    Pieces holes_;          // have none
    std::size_t kept_ = 0;  // bytes in free_
};

}  // namespace unisono
