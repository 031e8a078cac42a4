#include "server/rows.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "server/hash.hpp"

namespace unisono::server {

namespace {

constexpr std::size_t first_slots = 64;
/// So many keys are between the fetch of a slot, or of a row, and its use.
constexpr std::size_t ahead = 12;

}  // namespace

Rows::Rows(std::size_t row_bytes) : row_bytes_(row_bytes), slots_(first_slots, Slot{0, absent}) {}

/// Of other bits than the shard's: all keys of a shard would else share their homes.
std::size_t Rows::home(std::int64_t key) const {
    return mixed(~static_cast<std::uint64_t>(key)) & (slots_.size() - 1);
}

std::uint32_t Rows::find(std::int64_t key) const {
    for (std::size_t at = home(key);; at = (at + 1) & (slots_.size() - 1)) {
        if (slots_[at].index == absent) return absent;
        if (slots_[at].key == key) return slots_[at].index;
    }
}

Rows::Place Rows::insert(std::int64_t key) {
    std::size_t at = home(key);
    for (; slots_[at].index != absent; at = (at + 1) & (slots_.size() - 1))
        if (slots_[at].key == key) return {slots_[at].index, false};
    if (keys_.size() == absent) throw std::length_error("a shard has too many rows");
    const auto index = static_cast<std::uint32_t>(keys_.size());
    if (index / slab_rows == slabs_.size())
        slabs_.push_back(std::make_unique_for_overwrite<std::byte[]>(slab_rows * row_bytes_));
    slots_[at] = {key, index};
    keys_.push_back(key);
    std::memset(row(index), 0, row_bytes_);
    if (keys_.size() * 2 > slots_.size()) grow();
    return {index, true};
}

void Rows::insert(std::span<const std::int64_t> keys, std::span<Place> places) {
    for (std::size_t i = 0; i < std::min(ahead, keys.size()); ++i) __builtin_prefetch(&slots_[home(keys[i])]);
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (i + ahead < keys.size()) __builtin_prefetch(&slots_[home(keys[i + ahead])]);
        places[i] = insert(keys[i]);
    }
}

std::size_t Rows::memory() const {
    return slots_.capacity() * sizeof(Slot) + keys_.capacity() * sizeof(std::int64_t) +
           slabs_.size() * slab_rows * row_bytes_;
}

void Rows::clear() {
    std::ranges::fill(slots_, Slot{0, absent});
    keys_.clear();
}

void Rows::grow() {
    std::vector<Slot> old(slots_.size() * 2, Slot{0, absent});
    old.swap(slots_);
    for (const Slot& slot : old) {
        if (slot.index == absent) continue;
        std::size_t at = home(slot.key);
        while (slots_[at].index != absent) at = (at + 1) & (slots_.size() - 1);
        slots_[at] = slot;
    }
}

}  // namespace unisono::server
