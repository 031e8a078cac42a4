#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "server/hash.hpp"
#include "server/huge_pages.hpp"

namespace unisono::server {

/// Rows of bytes by key. Rows are numbered, and lie in slabs, so that they never move. The number of a key is
/// in an array, if keys up to this one are dense enough, else in an open-addressing map: the two parts of
/// Lua's tables (Ierusalimschy, de Figueiredo, Celes 2005).
class Rows {
  public:
    explicit Rows(std::size_t row_bytes);

    static constexpr std::uint32_t absent = ~std::uint32_t{0};

    struct Place {
        std::uint32_t index;
        bool added;  // its bytes are zero
    };

    std::uint32_t find(std::int64_t key) const {
        return is_numbered(key) ? numbers_[static_cast<std::size_t>(key)] : find(key, hash_of(key));
    }
    Place insert(std::int64_t key) { return insert(key, is_numbered(key) ? 0 : hash_of(key)); }

    // The same for many keys, whose memory is fetched ahead, and their rows for whoever uses these next. Each
    // key is read once: it may lie in memory that a peer can write to.

    /// body(which, index)
    template <class Body>
    void find(std::span<const std::int64_t> keys, Body body) const {
        each_fetched(keys, [&](std::size_t i, std::int64_t key, std::uint64_t hash) {
            const std::uint32_t index =
                is_numbered(key) ? numbers_[static_cast<std::size_t>(key)] : find(key, hash);
            if (index != absent) fetch(row(index));
            body(i, index);
        });
    }
    /// body(which, row, whether it was added)
    template <class Body>
    void insert(std::span<const std::int64_t> keys, Body body) {
        each_fetched(keys, [&](std::size_t i, std::int64_t key, std::uint64_t hash) {
            const auto [index, added] = insert(key, hash);
            fetch(row(index));
            body(i, row(index), added);
        });
    }

    std::byte* row(std::uint32_t index) {
        return slabs_[index >> slab_bits_] + (index & ((std::uint32_t{1} << slab_bits_) - 1)) * row_bytes_;
    }
    const std::byte* row(std::uint32_t index) const { return const_cast<Rows*>(this)->row(index); }
    std::int64_t key(std::uint32_t index) const { return keys_[index]; }
    std::span<const std::int64_t> keys() const { return keys_; }
    std::size_t size() const { return keys_.size(); }
    std::size_t row_bytes() const { return row_bytes_; }
    std::size_t memory() const;
    /// What so many rows more would add to it, at most.
    std::size_t memory_of_more(std::size_t count) const;
    /// Forgets the rows and keeps the memory.
    void clear();

  private:
    struct alignas(16) Slot {
        std::int64_t key;
        std::uint32_t index;  // absent: the slot is free
    };

    /// So many keys are between the fetch of a slot and its use.
    static constexpr std::size_t ahead = 128;

    /// Into the second-level cache: of the first one's misses only a dozen can be under way, which took 10 ns
    /// for a row instead of 4.
    static void fetch(const void* place) { __builtin_prefetch(place, 0, 2); }
    /// Of other bits than the shard's: all keys of a shard would else share their homes.
    static std::uint64_t hash_of(std::int64_t key) { return mixed(~static_cast<std::uint64_t>(key)); }

    bool is_numbered(std::int64_t key) const { return static_cast<std::uint64_t>(key) < numbers_.size(); }

    /// Where the slots of a hash begin: so many share a cache line.
    static constexpr std::size_t together = 4;
    std::size_t home(std::uint64_t hash) const { return hash & (slots_.size() - 1) & ~(together - 1); }
    std::size_t after(std::size_t place) const { return (place + together) & (slots_.size() - 1); }

    /// Slots that lie together are filled from the first to the last.
    std::uint32_t find(std::int64_t key, std::uint64_t hash) const {
        for (std::size_t at = home(hash);; at = after(at)) {
            const Slot* const some = &slots_[at];
            std::uint32_t found = absent;
            for (std::size_t i = together; i-- > 0;) found = some[i].key == key ? some[i].index : found;
            if (found != absent) return found;
            if (some[together - 1].index == absent) return absent;
        }
    }
    Place insert(std::int64_t key, std::uint64_t hash) {
        const std::uint32_t index =
            is_numbered(key) ? numbers_[static_cast<std::size_t>(key)] : find(key, hash);
        return index == absent ? Place{add(key, hash), true} : Place{index, false};
    }
    std::uint32_t add(std::int64_t key, std::uint64_t hash);

    /// body(which, key, hash); a key of the array has none. One that was hashed may be in the array when its
    /// turn comes, and never the other way round.
    template <class Body>
    void each_fetched(std::span<const std::int64_t> keys, Body body) const {
        struct Known {
            std::int64_t key;
            std::uint64_t hash;
        };
        std::array<Known, ahead> known;
        const auto begin = [&](std::size_t i) {
            const std::int64_t key = keys[i];
            if (is_numbered(key)) {
                known[i % ahead] = {key, 0};
                fetch(&numbers_[static_cast<std::size_t>(key)]);
            } else {
                known[i % ahead] = {key, hash_of(key)};
                fetch(&slots_[home(known[i % ahead].hash)]);
            }
        };
        for (std::size_t i = 0; i < std::min(ahead, keys.size()); ++i) begin(i);
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const Known one = known[i % ahead];
            if (i + ahead < keys.size()) begin(i + ahead);
            body(i, one.key, one.hash);
        }
    }
    void place(std::int64_t key, std::uint32_t index, std::uint64_t hash);
    void make_room();
    std::size_t range_worth_numbering() const;
    void number(std::size_t range);
    void rehash(std::size_t slots);
    void add_slabs();
    std::size_t slabs_at_once(std::size_t have) const;

    std::size_t row_bytes_;
    std::uint32_t slab_bits_;  // a slab has so many rows, as a power of 2
    std::vector<std::uint32_t, HugePages<std::uint32_t>> numbers_;  // of the keys from 0 on
    std::vector<Slot, HugePages<Slot>> slots_;                      // of all others
    std::size_t hashed_ = 0;                                        // slots that are not free
    std::vector<std::int64_t> keys_;
    std::vector<std::byte*> slabs_;
    std::vector<Block> blocks_;  // one slab or several
    std::size_t block_bytes_ = 0;
};

}  // namespace unisono::server
