#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/operation.hpp"

namespace unisono::engine {

using Nanoseconds = std::int64_t;

Nanoseconds now();

/// What an operation was, for who asks later. Times are nanoseconds of the monotonic clock, 0 for what has
/// not been yet; written by who runs the operation while others read.
struct Record {
    struct Touch {
        std::uint64_t variable;
        Mode mode;
        std::string name;
    };

    std::uint64_t serial = 0;
    std::string name;
    std::uint32_t site = 0;
    std::int32_t priority = 0;
    std::vector<Touch> touches;
    std::vector<Demand> demands;  // also the turns of those that accumulate
    Nanoseconds pushed = 0;
    std::atomic<Nanoseconds> ready = 0;
    std::atomic<Nanoseconds> begun = 0;
    std::atomic<Nanoseconds> ended = 0;
    std::atomic<std::int32_t> thread = -1;
    std::atomic<bool> failed = false;
};

}  // namespace unisono::engine
