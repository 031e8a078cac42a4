#include "server/rows.hpp"

#include <bit>
#include <cstring>
#include <stdexcept>

namespace unisono::server {

namespace {

constexpr std::size_t first_slots = 64;
/// The array has up to so many places for each row: 32 bytes, where a slot has 16 and half of them are free.
constexpr std::size_t most_spread = 8;
constexpr std::size_t most_slab_rows = 4096;
constexpr std::size_t slab_bytes = std::size_t{256} << 10;

/// As many rows as fit, but one at least.
std::uint32_t bits_of_slab(std::size_t row_bytes) {
    const std::size_t rows = row_bytes == 0 ? most_slab_rows : slab_bytes / row_bytes;
    return static_cast<std::uint32_t>(std::bit_width(std::clamp<std::size_t>(rows, 1, most_slab_rows)) - 1);
}

}  // namespace

Rows::Rows(std::size_t row_bytes)
    : row_bytes_(row_bytes), slab_bits_(bits_of_slab(row_bytes)), slots_(first_slots, Slot{0, absent}) {}

std::uint32_t Rows::add(std::int64_t key, std::uint64_t hash) {
    if (keys_.size() == absent) throw std::length_error("a shard has too many rows");
    const auto index = static_cast<std::uint32_t>(keys_.size());
    if (index >> slab_bits_ == slabs_.size()) add_slabs();
    keys_.push_back(key);
    std::memset(row(index), 0, row_bytes_);
    if (is_numbered(key)) {
        numbers_[static_cast<std::size_t>(key)] = index;
        return index;
    }
    place(key, index, hash);
    if (++hashed_ * 2 > slots_.size()) make_room();
    return index;
}

void Rows::place(std::int64_t key, std::uint32_t index, std::uint64_t hash) {
    std::size_t at = home(hash);
    while (slots_[at + together - 1].index != absent) at = after(at);
    while (slots_[at].index != absent) ++at;
    slots_[at] = {key, index};
}

/// The array at least doubles, or the map does: so this is done a few dozen times at most.
void Rows::make_room() {
    if (const std::size_t range = range_worth_numbering(); range > numbers_.size())
        number(range);
    else
        rehash(slots_.size() * 2);
}

/// The largest power of 2 below which the keys are dense enough.
std::size_t Rows::range_worth_numbering() const {
    std::array<std::size_t, 64> of_width{};  // how many keys have so many bits
    for (const std::int64_t key : keys_)
        if (key >= 0) ++of_width[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(key)))];
    std::size_t range = 0, below = 0;
    for (std::size_t bits = 0; bits < of_width.size(); ++bits) {
        below += of_width[bits];
        if (below * most_spread >= std::size_t{1} << bits) range = std::size_t{1} << bits;
    }
    return range;
}

void Rows::number(std::size_t range) {
    numbers_.resize(range, absent);
    for (std::uint32_t index = 0; index < keys_.size(); ++index)
        if (is_numbered(keys_[index])) numbers_[static_cast<std::size_t>(keys_[index])] = index;
    rehash(slots_.size());
    if (hashed_ * 2 > slots_.size()) rehash(slots_.size() * 2);
}

void Rows::rehash(std::size_t slots) {
    std::vector<Slot, HugePages<Slot>> old(slots, Slot{0, absent});
    old.swap(slots_);
    hashed_ = 0;
    for (const Slot& slot : old) {
        if (slot.index == absent || is_numbered(slot.key)) continue;
        place(slot.key, slot.index, hash_of(slot.key));
        ++hashed_;
    }
}

/// One after the other, until there are some; then as many as huge pages are worth.
std::size_t Rows::slabs_at_once(std::size_t have) const {
    constexpr std::size_t some = 8;
    const std::size_t slab = row_bytes_ << slab_bits_;
    return have >= some && slab > 0 ? std::max<std::size_t>(1, HugePages<std::byte>::large / slab) : 1;
}

void Rows::add_slabs() {
    const std::size_t count = slabs_at_once(slabs_.size()), slab = row_bytes_ << slab_bits_;
    const Block& block = blocks_.emplace_back(count * slab);
    block_bytes_ += block.size();
    for (std::size_t i = 0; i < count; ++i) slabs_.push_back(block.data() + i * slab);
}

std::size_t Rows::memory() const {
    return slots_.capacity() * sizeof(Slot) + numbers_.capacity() * sizeof(std::uint32_t) +
           keys_.capacity() * sizeof(std::int64_t) + block_bytes_;
}

std::size_t Rows::memory_of_more(std::size_t count) const {
    const std::size_t rows = keys_.size() + count;
    std::size_t bytes = 0;
    for (std::size_t slabs = slabs_.size(); slabs << slab_bits_ < rows;) {
        const std::size_t more = slabs_at_once(slabs);
        slabs += more;
        bytes += more * (row_bytes_ << slab_bits_);
    }
    std::size_t keys = keys_.capacity();
    while (keys < rows) keys = std::max<std::size_t>(1, 2 * keys);
    bytes += (keys - keys_.capacity()) * sizeof(std::int64_t);
    const std::size_t slots = std::bit_ceil((hashed_ + count) * 2);
    if (slots > slots_.size()) {  // or the array grows instead
        bytes += (slots - slots_.size()) * sizeof(Slot);
        const std::size_t range = std::bit_floor(rows * most_spread);
        bytes += (std::max(range, numbers_.size()) - numbers_.size()) * sizeof(std::uint32_t);
    }
    return bytes;
}

void Rows::clear() {
    std::ranges::fill(slots_, Slot{0, absent});
    std::ranges::fill(numbers_, absent);
    hashed_ = 0;
    keys_.clear();
}

}  // namespace unisono::server
