#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace unisono::server {

/// Rows of bytes by key: an open-addressing map of numbers, and slabs, so that a row never moves.
class Rows {
  public:
    explicit Rows(std::size_t row_bytes);

    static constexpr std::uint32_t absent = ~std::uint32_t{0};

    struct Place {
        std::uint32_t index;
        bool added;  // its bytes are zero
    };

    std::uint32_t find(std::int64_t key) const;
    Place insert(std::int64_t key);
    /// The same for many keys, whose memory is fetched ahead.
    void insert(std::span<const std::int64_t> keys, std::span<Place> places);

    std::byte* row(std::uint32_t index) {
        return slabs_[index / slab_rows].get() + index % slab_rows * row_bytes_;
    }
    const std::byte* row(std::uint32_t index) const { return const_cast<Rows*>(this)->row(index); }
    std::int64_t key(std::uint32_t index) const { return keys_[index]; }
    std::span<const std::int64_t> keys() const { return keys_; }
    std::size_t size() const { return keys_.size(); }
    std::size_t row_bytes() const { return row_bytes_; }
    std::size_t memory() const;
    /// Forgets the rows and keeps the memory.
    void clear();

  private:
    static constexpr std::size_t slab_rows = 4096;
    struct Slot {
        std::int64_t key;
        std::uint32_t index;  // absent: the slot is free
    };

    std::size_t home(std::int64_t key) const;
    void grow();

    std::size_t row_bytes_;
    std::vector<Slot> slots_;
    std::vector<std::int64_t> keys_;
    std::vector<std::unique_ptr<std::byte[]>> slabs_;
};

}  // namespace unisono::server
