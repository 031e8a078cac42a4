#include "transport/shm/inbox.hpp"

#include <unistd.h>

#include <bit>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace unisono {

namespace {

constexpr std::uint64_t inbox_magic = 0x756e69736f6e6f21;  // "unisono!"
constexpr std::uint32_t inbox_version = 1;

constexpr std::size_t min_ring_bytes = 64;
constexpr std::size_t max_ring_bytes = std::size_t{1} << 40;
constexpr int max_ranks = 1 << 16;

constexpr std::size_t bell_offset = sizeof(InboxHeader);
constexpr std::size_t rings_offset = bell_offset + cache_line;
static_assert(sizeof(Bell) <= cache_line && bell_offset % cache_line == 0);
static_assert(sizeof(RingControl) % cache_line == 0 && min_ring_bytes % cache_line == 0);

bool makes_an_inbox(std::uint64_t ranks, std::uint64_t ring_bytes) {
    return ranks >= 1 && ranks <= max_ranks && std::has_single_bit(ring_bytes) &&
           ring_bytes >= min_ring_bytes && ring_bytes <= max_ring_bytes;
}

std::size_t ring_offset(std::size_t ring, std::size_t ring_bytes) {
    return rings_offset + ring * (sizeof(RingControl) + ring_bytes);
}

}  // namespace

std::size_t inbox_size(int ranks, std::size_t ring_bytes) {
    if (ranks < 1 || !makes_an_inbox(static_cast<std::uint64_t>(ranks), ring_bytes))
        throw std::invalid_argument("an inbox of " + std::to_string(ranks) + " rings of " +
                                    std::to_string(ring_bytes) + " bytes: needs 1 to " +
                                    std::to_string(max_ranks) + ", a power of two from " +
                                    std::to_string(min_ring_bytes));
    return ring_offset(static_cast<std::size_t>(ranks), ring_bytes);
}

Inbox Inbox::create(int ranks, std::size_t ring_bytes) {
    Segment segment = Segment::create(inbox_size(ranks, ring_bytes));
    std::byte* const start = segment.bytes().data();
    new (start) InboxHeader{inbox_magic, inbox_version, static_cast<std::uint32_t>(ranks), ring_bytes,
                            std::int64_t{::getpid()}};
    new (start + bell_offset) Bell;
    for (std::size_t ring = 0; ring < static_cast<std::size_t>(ranks); ++ring)
        new (start + ring_offset(ring, ring_bytes)) RingControl;
    return Inbox(std::move(segment));
}

Inbox Inbox::open(Fd descriptor) { return Inbox(Segment::map(std::move(descriptor))); }

Inbox::Inbox(Segment segment) : segment_(std::move(segment)) {
    const std::size_t size = segment_.bytes().size();
    if (size < sizeof(InboxHeader)) throw SystemError("a shared segment is too small for an inbox");
    InboxHeader header;
    std::memcpy(&header, segment_.bytes().data(), sizeof header);  // once: what is checked is what is used
    if (header.magic != inbox_magic) throw SystemError("a shared segment is not an inbox");
    if (header.version != inbox_version)
        throw SystemError("a peer's inbox has version " + std::to_string(header.version) + ", not " +
                          std::to_string(inbox_version));
    if (!makes_an_inbox(header.ranks, header.ring_bytes) ||
        size != inbox_size(static_cast<int>(header.ranks), header.ring_bytes))
        throw SystemError("an inbox of " + std::to_string(size) + " bytes is not what its header says: " +
                          std::to_string(header.ranks) + " rings of " + std::to_string(header.ring_bytes));
    ranks_ = static_cast<int>(header.ranks);
    ring_bytes_ = header.ring_bytes;
    pid_ = header.pid;
}

Bell& Inbox::bell() const { return *reinterpret_cast<Bell*>(segment_.bytes().data() + bell_offset); }

Ring Inbox::ring(int writer) const {
    if (writer < 0 || writer >= ranks_)
        throw std::invalid_argument("an inbox of " + std::to_string(ranks_) + " rings has none for rank " +
                                    std::to_string(writer));
    const std::size_t offset = ring_offset(static_cast<std::size_t>(writer), ring_bytes_);
    auto& control = *reinterpret_cast<RingControl*>(segment_.bytes().data() + offset);
    return {control, segment_.bytes().subspan(offset + sizeof(RingControl), ring_bytes_)};
}

}  // namespace unisono
