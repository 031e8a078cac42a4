#include "base/clock.hpp"

#include <thread>

#include "expect.hpp"

namespace {

using namespace std::chrono_literals;
using unisono::Clock;
using unisono::quick_now;

/// Who is interrupted in between compares nothing wrong: the two looks at the clock are before and after.
void test_it_tells_the_time_of_the_clock() {
    for (int i = 0; i < 200'000; ++i) {
        const auto before = Clock::now();
        const auto told = quick_now();
        expect(before - 2us <= told && told <= Clock::now() + 2us, "the clock's time");
        if (i % 50'000 == 0) std::this_thread::sleep_for(20ms);
    }
}

void test_it_never_goes_back() {
    auto last = quick_now();
    for (const auto end = last + 200ms; last < end;) {
        const auto next = quick_now();
        expect(last <= next, "a time that is not before the last one");
        last = next;
    }
}

}  // namespace

int main() {
    test_it_tells_the_time_of_the_clock();
    test_it_never_goes_back();
    std::jthread other([] { test_it_tells_the_time_of_the_clock(); });
}
