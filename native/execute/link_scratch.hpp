#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "execute/counted_link.hpp"
#include "execute/frame.hpp"
#include "execute/program.hpp"

namespace unisono {

/// How far the traffic with one peer is.
struct Lane {
    const Program::Traffic* traffic;
    CountedLink* link;
    std::size_t sends;     // as many of the traffic's may go on now: all, unless they are held
    std::size_t receives;  // likewise
    std::size_t next_send = 0;
    std::size_t next_receive = 0;
    std::size_t header_sent = 0;      // bytes of the frame of the message that is being sent
    std::size_t header_received = 0;  // bytes of the frame of the message that is being received
    std::int32_t sending = -1;        // message
    std::int32_t receiving = -1;      // message
    std::array<std::byte, sizeof(Frame)> in{};
    std::array<std::byte, 8> partial{};  // of an element whose other bytes have not arrived yet
    std::size_t partial_bytes = 0;
};

/// How far an instruction is.
struct Position {
    std::size_t size;
    std::size_t reached = 0;
    bool done = false;
};

/// What a call over links needs for a while, kept for the next one: a call allocates nothing that an earlier
/// one of its kind did not.
struct LinkScratch {
    std::vector<Position> positions;   // by instruction
    std::vector<std::int32_t> locals;  // instructions that are not through, in order
    std::vector<std::size_t> slots;    // where each begins in `memory`
    std::vector<std::uint64_t> bytes;  // of each message
    std::vector<Lane> lanes;
    std::vector<const Link*> links;          // of the lanes; none for those that nothing is awaited from
    std::vector<const std::byte*> operands;  // of a fold
    std::vector<std::byte> memory;
};

}  // namespace unisono
