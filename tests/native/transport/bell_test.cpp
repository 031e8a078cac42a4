#include "transport/shm/bell.hpp"

#include <chrono>
#include <thread>

#include "expect.hpp"
#include "pairs.hpp"
#include "traffic.hpp"

namespace {

using namespace std::chrono_literals;
using unisono::Bell;
using unisono::Link;
using Clock = std::chrono::steady_clock;

/// No sleep here may last: who waits this long has missed the bell.
constexpr auto for_ever = 20s;

void test_ringing_for_nobody_leaves_no_trace() {
    Bell bell;
    const auto ticket = bell.ticket();
    bell.ring();
    expect(bell.ticket() == ticket, "nothing to be written");
    bell.enter();
    bell.ring();
    expect(bell.ticket() != ticket, "a ring to be counted while somebody may sleep");
    bell.leave();
}

void test_a_ring_between_ticket_and_sleep_is_not_missed() {
    Bell bell;
    bell.enter();
    const auto ticket = bell.ticket();
    bell.ring();
    const auto start = Clock::now();
    bell.sleep(ticket, for_ever);
    expect(Clock::now() - start < 5s, "to return at once");
    bell.leave();
}

void test_a_sleep_ends_after_its_timeout() {
    Bell bell;
    bell.enter();
    const auto start = Clock::now();
    bell.sleep(bell.ticket(), 3ms);
    expect(Clock::now() - start < 5s, "an end");
    bell.leave();
}

/// Waits for a byte by nothing but the bell.
void await(Link& link) {
    Bell& bell = *link.bell();
    bell.enter();
    for (;;) {
        const auto ticket = bell.ticket();
        if (!link.peek(1).empty()) break;
        bell.sleep(ticket, for_ever);
    }
    bell.leave();
    link.consume(1);
}

void test_no_ring_is_ever_missed() {
    const Pair pair = connect_rings(64);
    const auto byte = random_bytes(1, 61);
    constexpr int rounds = 3000;
    const auto start = Clock::now();
    std::jthread peer([&] {
        for (int round = 0; round < rounds; ++round) {
            await(*pair.other);
            send_all(*pair.other, byte);
        }
    });
    for (int round = 0; round < rounds; ++round) {
        send_all(*pair.one, byte);
        await(*pair.one);
    }
    expect(Clock::now() - start < for_ever, "no sleep until the timeout");
}

}  // namespace

int main() {
    test_ringing_for_nobody_leaves_no_trace();
    test_a_ring_between_ticket_and_sleep_is_not_missed();
    test_a_sleep_ends_after_its_timeout();
    test_no_ring_is_ever_missed();
}
