#pragma once

#include "execute/watch.hpp"
#include "observe/recorder.hpp"

namespace unisono {

/// Memory of the caller's: an address, and how many bytes belong to it.
struct Array {
    std::byte* address;
    std::size_t size;
};

/// One call of a kind that is planned: on which arrays, and until when.
struct Request {
    Array in;
    Array out;
    Clock::time_point deadline;
    Label label{};
    Clock::time_point made = quick_now();
    bool in_background = false;
};

}  // namespace unisono
