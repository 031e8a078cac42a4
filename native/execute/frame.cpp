#include "execute/frame.hpp"

#include <cstring>
#include <string>

#include "base/error.hpp"

namespace unisono {

namespace {

bool is_of_two(const Frame& frame) { return (frame.sequence & in_pairs) != 0; }
std::uint64_t number(const Frame& frame) { return frame.sequence & ~in_pairs; }

std::string describe(const Frame& frame, const char* of_two) {
    return (is_of_two(frame) ? std::string(of_two) + " before call " : "call ") +
           std::to_string(number(frame));
}

}  // namespace

void require_frame(FrameBytes arrived, const Frame& due, Route route) {
    Frame frame{};
    std::memcpy(&frame, arrived.data(), arrived.size());
    if (frame == due) return;
    Mismatch mismatch("rank " + std::to_string(route.sender) + " is in " + describe(frame, "a send") +
                          " and sends " + std::to_string(frame.bytes) + " bytes, rank " +
                          std::to_string(route.receiver) + " is in " + describe(due, "a receive") +
                          " and awaits " + std::to_string(due.bytes) +
                          ": all ranks have to make the same calls with the same arguments in the same order",
                      {route.sender}, "");
    // A message of the two alone that only one of them has come to, or that they describe differently.
    const bool has_come = is_of_two(frame) && number(frame) <= number(due);
    const bool is_awaited = is_of_two(due) && number(due) <= number(frame);
    if (has_come || is_awaited) mismatch.message = route.messages;
    // What was sent in an earlier call, and not taken there, shows that that one was different.
    else if (!is_of_two(frame) && number(frame) < number(due))
        mismatch.sequence = number(frame);
    throw mismatch;
}

}  // namespace unisono
