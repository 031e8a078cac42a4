#include "transport/shm/inbox.hpp"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "transport/shm/other_process.hpp"

namespace unisono {

namespace {

constexpr std::uint64_t inbox_magic = 0x756e69736f6e6f21;  // "unisono!"
constexpr std::uint32_t inbox_version = 4;

constexpr std::size_t min_ring_bytes = 64;
constexpr std::size_t max_bytes = std::size_t{1} << 40;
constexpr int max_ranks = 1 << 16;

constexpr std::size_t bell_offset = sizeof(InboxHeader);
constexpr std::size_t board_offset = bell_offset + cache_line;
constexpr std::size_t stages_offset = board_offset + sizeof(Board);
static_assert(sizeof(Bell) <= cache_line && bell_offset % cache_line == 0);
static_assert(sizeof(Board) % cache_line == 0);
static_assert(sizeof(RingControl) % cache_line == 0 && min_ring_bytes % cache_line == 0);

bool makes_an_inbox(const InboxSizes& sizes) {
    return sizes.ranks >= 1 && sizes.ranks <= max_ranks && std::has_single_bit(sizes.ring_bytes) &&
           sizes.ring_bytes >= min_ring_bytes && sizes.ring_bytes <= max_bytes &&
           sizes.stage_bytes <= max_bytes && sizes.stage_bytes % cache_line == 0 &&
           sizes.heap_bytes <= max_bytes && sizes.heap_bytes % cache_line == 0;
}

std::size_t ring_offset(const InboxSizes& sizes, std::size_t ring) {
    return stages_offset + 2 * sizes.stage_bytes + ring * (sizeof(RingControl) + sizes.ring_bytes);
}

std::string describe(const InboxSizes& sizes) {
    return std::to_string(sizes.ranks) + " rings of " + std::to_string(sizes.ring_bytes) +
           " bytes, stages of " + std::to_string(sizes.stage_bytes) + " and a heap of " +
           std::to_string(sizes.heap_bytes);
}

}  // namespace

std::size_t InboxSizes::allocated() const {
    constexpr std::size_t page = 4096;
    if (!makes_an_inbox(*this))
        throw std::invalid_argument("an inbox of " + describe(*this) + ": needs 1 to " +
                                    std::to_string(max_ranks) + " rings, a power of two from " +
                                    std::to_string(min_ring_bytes) + ", and multiples of " +
                                    std::to_string(cache_line));
    const auto end = ring_offset(*this, static_cast<std::size_t>(ranks));
    return heap_bytes == 0 ? end : (end + page - 1) / page * page;
}

Inbox Inbox::create(const InboxSizes& sizes) {
    Segment segment = Segment::create(sizes.allocated(), sizes.heap_bytes);
    std::byte* const start = segment.bytes().data();
    auto word = std::make_unique<std::uint64_t>(
        static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
    new (start) InboxHeader{.magic = inbox_magic,
                            .version = inbox_version,
                            .ranks = static_cast<std::uint32_t>(sizes.ranks),
                            .ring_bytes = sizes.ring_bytes,
                            .stage_bytes = sizes.stage_bytes,
                            .heap_bytes = sizes.heap_bytes,
                            .pid = ::getpid(),
                            .probe = reinterpret_cast<std::uint64_t>(word.get()),
                            .probe_word = *word};
    new (start + bell_offset) Bell;
    new (start + board_offset) Board;
    for (std::size_t ring = 0; ring < static_cast<std::size_t>(sizes.ranks); ++ring)
        new (start + ring_offset(sizes, ring)) RingControl;
    Inbox inbox(std::move(segment));
    inbox.heap_ = std::make_unique<Heap>(inbox.heap_bytes(), inbox.descriptor(), sizes.allocated());
    inbox.word_ = std::move(word);
    return inbox;
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
    sizes_ = {static_cast<int>(header.ranks), header.ring_bytes, header.stage_bytes, header.heap_bytes};
    if (!makes_an_inbox(sizes_) || size != sizes_.allocated() + sizes_.heap_bytes)
        throw SystemError("an inbox of " + std::to_string(size) +
                          " bytes is not what its header says: " + describe(sizes_));
    if (segment_.allocated() < sizes_.allocated())
        throw SystemError("an inbox that is not fully allocated is not mapped");
    pid_ = header.pid;
    probe_ = header.probe;
    probe_word_ = header.probe_word;
}

Bell& Inbox::bell() const { return *reinterpret_cast<Bell*>(segment_.bytes().data() + bell_offset); }

Ring Inbox::ring(int writer) const {
    if (writer < 0 || writer >= sizes_.ranks)
        throw std::invalid_argument("an inbox of " + std::to_string(sizes_.ranks) +
                                    " rings has none for rank " + std::to_string(writer));
    const std::size_t offset = ring_offset(sizes_, static_cast<std::size_t>(writer));
    auto& control = *reinterpret_cast<RingControl*>(segment_.bytes().data() + offset);
    return {control, segment_.bytes().subspan(offset + sizeof(RingControl), sizes_.ring_bytes)};
}

Board& Inbox::board() const { return *reinterpret_cast<Board*>(segment_.bytes().data() + board_offset); }

std::span<std::byte> Inbox::stage(std::uint64_t call) const {
    return segment_.bytes().subspan(stages_offset + call % 2 * sizes_.stage_bytes, sizes_.stage_bytes);
}

std::span<std::byte> Inbox::heap_bytes() const { return segment_.bytes().last(sizes_.heap_bytes); }

bool Inbox::owner_is_readable(pid_t process) const { return can_read(process, probe_, probe_word_); }

}  // namespace unisono
