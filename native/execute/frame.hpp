#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace unisono {

/// What stands before the bytes of every message.
struct Frame {
    std::uint64_t sequence;
    std::uint64_t fingerprint;
    std::uint64_t bytes;

    bool operator==(const Frame&) const = default;
};

using FrameBytes = std::span<const std::byte, sizeof(Frame)>;

/// The first bit of the number of a call that sender and receiver make alone, before the call of all ranks of
/// that number.
constexpr std::uint64_t in_pairs = std::uint64_t{1} << 63;

/// Who sends a message to whom.
struct Route {
    int sender;
    int receiver;
    std::uint64_t messages;  // of calls of the two alone that have gone this way before
};

/// Mismatch, in the words of both ranks, unless the frame that arrived is the one that is due.
void require_frame(FrameBytes arrived, const Frame& due, Route route);

}  // namespace unisono
