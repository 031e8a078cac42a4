#include "transport/wait.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "expect.hpp"
#include "pairs.hpp"
#include "traffic.hpp"

namespace {

using namespace std::chrono_literals;
using unisono::Bytes;
using unisono::Link;
using unisono::Patience;
using unisono::Waiter;
using Clock = std::chrono::steady_clock;

/// Sleeps at once: no spinning, as little yielding as there can be.
constexpr Patience none{.spins = 0, .spin_time = 0us, .yields = 1, .yield_time = 0us};

/// The time from an event 5 ms from now to the end of the wait for it. The best of a few: the host may be
/// busy.
template <class Connect, class Prepare, class Event, class Happened>
Clock::duration fastest_wake_up(Connect connect, Prepare prepare, Event event, Happened happened) {
    auto fastest = Clock::duration::max();
    for (int time = 0; time < 9; ++time) {
        Pair pair = connect();
        prepare(pair);
        const std::array<const Link*, 1> links{pair.one.get()};
        Waiter waiter(links, none);
        Clock::time_point start;
        std::jthread peer([&] {
            std::this_thread::sleep_for(5ms);
            start = Clock::now();
            event(pair);
        });
        while (!happened(pair)) waiter.pause();
        const auto end = Clock::now();
        peer.join();
        fastest = std::min(fastest, end - start);
    }
    return fastest;
}

void test_a_sleeper_wakes_when_bytes_arrive(const Kind& kind) {
    const auto delay = fastest_wake_up(
        kind.connect, [](Pair&) {}, [](Pair& pair) { send_all(*pair.other, random_bytes(8, 21)); },
        [](Pair& pair) { return !pair.one->peek(8).empty(); });
    expect(delay < 4ms, "to wake up within a few milliseconds of the arrival");
}

void test_a_sleeper_wakes_when_there_is_room(const Kind& kind) {
    const auto bytes = random_bytes(1'000'000, 22);
    const std::array<Bytes, 1> parts{bytes};
    const auto fill = [&](Pair& pair) {
        for (int idle = 0; idle < 10;) {
            idle = pair.one->try_send(parts) == 0 ? idle + 1 : 0;
            if (idle > 0) std::this_thread::sleep_for(1ms);
        }
    };
    Buffer target(100'000);
    const auto drain = [&](Pair& pair) {
        for (int time = 0; time < 1000; ++time) pair.other->try_receive(target);
    };
    const auto delay =
        fastest_wake_up(kind.connect, fill, drain, [&](Pair& pair) { return pair.one->try_send(parts) > 0; });
    expect(delay < 20ms, "to wake up soon after the peer began to read");
}

void test_a_sleeper_wakes_when_the_peer_closes(const Kind& kind) {
    const auto delay = fastest_wake_up(
        kind.connect, [](Pair&) {}, [](Pair& pair) { pair.other.reset(); },
        [](Pair& pair) {
            try {
                return !pair.one->peek(8).empty();
            } catch (const unisono::PeerLost&) {
                return true;
            }
        });
    expect(delay < 4ms, "to wake up within a few milliseconds of the end");
}

void test_sockets_and_rings_are_waited_for_together() {
    for (const bool by_tcp : {false, true}) {
        const Pair tcp = connect_tcp(false);
        const Pair rings = connect_rings(4096);
        const std::array<const Link*, 2> links{tcp.one.get(), rings.one.get()};
        Waiter waiter(links, none);
        std::jthread peer([&] {
            std::this_thread::sleep_for(10ms);
            send_all(by_tcp ? *tcp.other : *rings.other, random_bytes(8, 23));
        });
        const auto start = Clock::now();
        int looks = 0;
        while (tcp.one->peek(8).empty() && rings.one->peek(8).empty()) {
            waiter.pause();
            ++looks;
        }
        const auto took = Clock::now() - start;
        expect(took < 20s, "either of them to end the wait");
        expect(looks < 100 + took / 1ms, "to sleep meanwhile");
    }
}

void test_a_sleep_is_short_without_any_news() {
    const Pair rings = connect_rings(4096);
    const Pair tcp = connect_tcp(false);
    for (const Link* link :
         {static_cast<const Link*>(rings.one.get()), static_cast<const Link*>(tcp.one.get())}) {
        const std::array<const Link*, 1> links{link};
        Waiter waiter(links, none);
        for (int time = 0; time < 3; ++time) waiter.pause();  // a yield, and the announcement of a sleep
        auto shortest = Clock::duration::max();
        for (int time = 0; time < 20; ++time) {
            const auto start = Clock::now();
            waiter.pause();
            shortest = std::min(shortest, Clock::now() - start);
        }
        expect(shortest > 1ms && shortest < 10ms, "2 ms, and what the host adds");
    }
}

void test_a_short_wait_spins_and_then_yields() {
    const Pair rings = connect_rings(64);
    const std::array<const Link*, 1> links{rings.one.get()};
    Waiter waiter(links, Patience{.spins = 10, .spin_time = 1s});
    for (int spin = 0; spin < 10; ++spin) {
        expect(waiter.spins_next(), "to spin first");
        expect(!waiter.pause(), "to keep the core");
    }
    expect(!waiter.spins_next() && waiter.pause(), "to give the core away then");
    waiter.reset();
    expect(waiter.spins_next() && !waiter.pause(), "to spin again after progress");
}

void test_spinning_ends_when_it_takes_too_long() {
    const Pair rings = connect_rings(64);
    const std::array<const Link*, 1> links{rings.one.get()};
    Waiter waiter(links, Patience{.spins = 1'000'000'000, .spin_time = 1ms});
    const auto start = Clock::now();
    while (!waiter.pause()) expect(Clock::now() - start < 1s, "an end of the spinning");
}

}  // namespace

int main() {
    for (const auto& kind : kinds_of_links()) {
        std::cout << kind.name << std::endl;
        test_a_sleeper_wakes_when_bytes_arrive(kind);
        test_a_sleeper_wakes_when_there_is_room(kind);
        test_a_sleeper_wakes_when_the_peer_closes(kind);
    }
    test_sockets_and_rings_are_waited_for_together();
    test_a_sleep_is_short_without_any_news();
    test_a_short_wait_spins_and_then_yields();
    test_spinning_ends_when_it_takes_too_long();
}
