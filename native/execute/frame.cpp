#include "execute/frame.hpp"

#include <cstring>
#include <string>

#include "base/error.hpp"

namespace unisono {

namespace {

std::string describe(std::uint64_t number_of_call) {
    const bool is_pairwise = (number_of_call & in_pairs) != 0;
    return (is_pairwise ? "send or receive " : "call ") + std::to_string(number_of_call & ~in_pairs);
}

}  // namespace

void require_frame(FrameBytes arrived, const Frame& due, Route route) {
    Frame frame{};
    std::memcpy(&frame, arrived.data(), arrived.size());
    if (frame == due) return;
    Mismatch mismatch("rank " + std::to_string(route.sender) + " is in " + describe(frame.sequence) +
                          " and sends " + std::to_string(frame.bytes) + " bytes, rank " +
                          std::to_string(route.receiver) + " is in " + describe(due.sequence) +
                          " and awaits " + std::to_string(due.bytes) +
                          ": all ranks have to make the same calls with the same arguments in the same order",
                      {route.sender}, "");
    // What was sent in an earlier call, and not taken there, shows that that one was different.
    if ((due.sequence & in_pairs) == 0 && frame.sequence < due.sequence) mismatch.sequence = frame.sequence;
    throw mismatch;
}

}  // namespace unisono
