#include "transport/shm/heap.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/error.hpp"

namespace unisono {

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t most_kept = std::size_t{512} << 20;

int change(int descriptor, int mode, std::size_t offset, std::size_t size) {
    int result;
    do result = ::fallocate(descriptor, mode, static_cast<off_t>(offset), static_cast<off_t>(size));
    while (result < 0 && errno == EINTR);
    return result;
}

/// Inserts a piece and joins it with its neighbours.
std::map<std::size_t, std::size_t>::iterator insert(std::map<std::size_t, std::size_t>& pieces,
                                                    std::size_t offset, std::size_t size) {
    auto next = pieces.lower_bound(offset);
    if (next != pieces.end() && offset + size == next->first) {
        size += next->second;
        next = pieces.erase(next);
    }
    if (next != pieces.begin()) {
        const auto before = std::prev(next);
        if (before->first + before->second == offset) {
            before->second += size;
            return before;
        }
    }
    return pieces.emplace_hint(next, offset, size);
}

/// The smallest piece that is large enough.
std::map<std::size_t, std::size_t>::iterator best_fit(std::map<std::size_t, std::size_t>& pieces,
                                                      std::size_t size) {
    auto best = pieces.end();
    for (auto piece = pieces.begin(); piece != pieces.end(); ++piece)
        if (piece->second >= size && (best == pieces.end() || piece->second < best->second)) best = piece;
    return best;
}

/// Takes the first `size` bytes of a piece.
std::size_t cut(std::map<std::size_t, std::size_t>& pieces,
                std::map<std::size_t, std::size_t>::iterator piece, std::size_t size) {
    const auto [offset, whole] = *piece;
    pieces.erase(piece);
    if (whole > size) pieces.emplace(offset + size, whole - size);
    return offset;
}

}  // namespace

Heap::Heap(std::span<std::byte> bytes, int descriptor, std::size_t file_offset)
    : bytes_(bytes), descriptor_(descriptor), file_offset_(file_offset) {
    if (const auto whole = bytes.size() / page * page; whole > 0) holes_.emplace(0, whole);
}

std::byte* Heap::allocate(std::size_t size) {
    origin_.require("this shared memory");
    size = std::max(page, (size + page - 1) / page * page);
    const std::lock_guard lock(mutex_);
    auto offset = take_free(size);
    if (!offset) offset = take_hole(size);
    used_.emplace(*offset, size);
    return bytes_.data() + *offset;
}

void Heap::free(std::byte* address) {
    if (!origin_.is_here()) return;
    const std::lock_guard lock(mutex_);
    const auto piece = used_.find(static_cast<std::size_t>(address - bytes_.data()));
    const auto [offset, size] = *piece;
    used_.erase(piece);
    const auto joined = insert(free_, offset, size);
    kept_ += size;
    if (kept_ > most_kept) release(joined);
}

std::optional<std::size_t> Heap::offset_of(const std::byte* address, std::size_t size) const {
    const auto start = reinterpret_cast<std::uintptr_t>(bytes_.data());
    const auto asked = reinterpret_cast<std::uintptr_t>(address);
    if (asked < start || asked - start > bytes_.size() || bytes_.size() - (asked - start) < size) return {};
    return asked - start;
}

std::optional<std::size_t> Heap::take_free(std::size_t size) {
    const auto piece = best_fit(free_, size);
    if (piece == free_.end()) return {};
    kept_ -= size;
    return cut(free_, piece, size);
}

/// Pages for a new piece; between the pieces that are kept there may be no room for it, so these have to go
/// then.
std::size_t Heap::take_hole(std::size_t size) {
    auto hole = best_fit(holes_, size);
    if (hole == holes_.end()) {
        while (!free_.empty()) release(free_.begin());
        hole = best_fit(holes_, size);
    }
    if (hole == holes_.end())
        throw SystemError("no room for " + std::to_string(size) + " bytes in shared memory: " +
                          std::to_string(bytes_.size()) + " bytes are reserved on this host");
    if (change(descriptor_, 0, file_offset_ + hole->first, size) < 0)
        throw_errno("allocating " + std::to_string(size) + " bytes of shared memory");
    return cut(holes_, hole, size);
}

void Heap::release(Pieces::iterator piece) {
    const auto [offset, size] = *piece;
    free_.erase(piece);
    kept_ -= size;
    change(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, file_offset_ + offset, size);
    insert(holes_, offset, size);
}

}  // namespace unisono
