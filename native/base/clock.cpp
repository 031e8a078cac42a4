#include "base/clock.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/cpu.hpp"

namespace unisono {

namespace {

/// Counts after which the clock is asked again: about 100 us, in which the two drift apart by a nanosecond or
/// two.
constexpr std::uint64_t longest = 1 << 18;

/// Nanoseconds that the two are compared over: at least, so that the rate is known to some millionths; and
/// before they are compared anew, because clocks are adjusted.
constexpr std::int64_t least_compared = 2'000'000, most_compared = 1'000'000'000;

/// Counts that a look at the clock takes at most, if nobody takes the core away meanwhile.
constexpr std::uint64_t at_once = 1 << 12;

std::int64_t nanoseconds_now() {
    const auto now = Clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// Does the kernel itself go by the counter? Where it does not, the counters of the cores may differ, or
/// stand still.
bool is_trusted() {
    std::ifstream source("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    std::string name;
    return source >> name && name == "tsc" && count_cycles() != 0;
}

/// The last time that a thread asked the clock, and what it knows of the counter since.
struct Look {
    std::uint64_t count = 0;
    std::int64_t nanoseconds = 0;
    double rate = 0;            // nanoseconds per count
    std::uint64_t horizon = 0;  // counts for which the rate is good
    std::int64_t latest = 0;    // that was told
    std::uint64_t first_count = 0;
    std::int64_t first_nanoseconds = 0;

    std::int64_t ask() {
        static const bool trusted = is_trusted();
        std::int64_t told = 0;
        horizon = 0;
        for (int tries = 0; tries < (trusted ? 3 : 1) && horizon == 0; ++tries) {
            const auto before = count_cycles();
            told = nanoseconds_now();
            count = count_cycles();
            if (trusted && count - before <= at_once) compare(told);
        }
        return nanoseconds = std::max(told, latest);
    }

    void compare(std::int64_t told) {
        const auto compared = told - first_nanoseconds;
        if (rate != 0) horizon = longest;
        if (first_count != 0 && count > first_count) {
            if (compared < least_compared) return;
            rate = static_cast<double>(compared) / static_cast<double>(count - first_count);
            horizon = longest;
            if (compared < most_compared) return;
        }
        first_count = count;
        first_nanoseconds = told;
    }
};

}  // namespace

Clock::time_point quick_now() {
    // Where the program's own thread-local memory is, which takes no call to find.
    [[gnu::tls_model("initial-exec")]] static thread_local Look look;
    const auto now = count_cycles(), passed = now - look.count;
    look.latest =
        passed < look.horizon
            ? std::max(look.latest,
                       look.nanoseconds + static_cast<std::int64_t>(static_cast<double>(passed) * look.rate))
            : look.ask();
    return Clock::time_point(std::chrono::nanoseconds(look.latest));
}

}  // namespace unisono
