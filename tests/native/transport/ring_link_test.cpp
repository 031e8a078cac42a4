#include "transport/shm/ring_link.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "expect.hpp"
#include "pairs.hpp"
#include "traffic.hpp"

namespace {

using unisono::Bytes;
using unisono::Inbox;
using unisono::RingLink;

constexpr std::size_t ring_bytes = 128;

/// Rank 0 with its link to rank 1, whose side of the shared memory the test plays.
struct Half {
    std::shared_ptr<Inbox> mine = std::make_shared<Inbox>(Inbox::create({2, ring_bytes}));
    std::shared_ptr<Inbox> theirs = std::make_shared<Inbox>(Inbox::create({2, ring_bytes}));
    RingLink link{mine, 0, theirs, 1};

    void write_tail(std::uint64_t tail) const { mine->ring(1).control.tail.store(tail); }
    void write_head(std::uint64_t head) const { theirs->ring(0).control.head.store(head); }

    std::size_t send(std::size_t size) {
        const Buffer bytes(size);
        const std::array<Bytes, 1> parts{bytes};
        return link.try_send(parts);
    }
};

template <class Attempt>
std::string loss(Attempt attempt) {
    try {
        attempt();
    } catch (const unisono::PeerLost& lost) {
        return lost.what();
    }
    return {};
}

void test_a_broken_tail_is_a_lost_peer() {
    for (const std::uint64_t tail :
         {std::uint64_t{ring_bytes + 1}, std::uint64_t{1} << 63, std::numeric_limits<std::uint64_t>::max()}) {
        Half half;
        half.write_tail(tail);
        Buffer target(1000);
        const auto peeking = loss([&] { half.link.peek(1000); });
        const auto receiving = loss([&] { half.link.try_receive(target); });
        expect(peeking.find("broke the shared ring: its tail") != std::string::npos, "what is broken");
        expect(receiving == peeking, "the same by both ways");
    }
}

void test_a_tail_that_goes_back_is_a_lost_peer() {
    Half half;
    half.write_tail(100);
    half.link.peek(1000);
    half.link.consume(50);
    half.write_tail(99);
    expect(!loss([&] { half.link.peek(1000); }).empty(), "a tail before one that was seen to be noticed");
    half.write_tail(49);
    expect(!loss([&] { half.link.peek(1000); }).empty(), "a tail before the head to be noticed");
    half.write_tail(50 + ring_bytes);
    expect(half.link.peek(1000).size() == ring_bytes - 50, "a full ring to be all right");
}

void test_a_broken_head_is_a_lost_peer() {
    for (const std::uint64_t head :
         {std::uint64_t{ring_bytes + 1}, std::numeric_limits<std::uint64_t>::max()}) {
        Half half;
        expect(half.send(1000) == ring_bytes, "a full ring");
        half.write_head(head);
        const auto text = loss([&] { half.send(1); });
        expect(text.find("broke the shared ring: its head") != std::string::npos, "what is broken");
    }
}

void test_a_head_that_goes_back_is_a_lost_peer() {
    Half half;
    expect(half.send(1000) == ring_bytes, "a full ring");
    half.write_head(100);
    expect(half.send(1000) == 100, "the room that there is");
    half.write_head(99);
    expect(!loss([&] { half.send(1); }).empty(), "a head before one that was seen to be noticed");
}

void test_a_reader_that_closed_is_noticed_when_there_is_no_room() {
    Half half;
    half.theirs->ring(0).control.consumer_closed.store(1);
    expect(loss([&] { half.send(ring_bytes + 1); }) == "closed by the peer", "to notice");
}

void test_counters_may_wrap_around_the_ring_many_times() {
    const auto mine = std::make_shared<Inbox>(Inbox::create({1, 64}));
    RingLink to_myself(mine, 0, mine, 0);
    const auto bytes = random_bytes(40, 41);
    for (int time = 0; time < 1000; ++time) {
        send_all(to_myself, bytes);
        expect(receive_all(to_myself, bytes.size()) == bytes, "what was sent");
    }
}

void test_a_last_byte_is_not_lost_when_the_close_follows_at_once() {
    const auto byte = random_bytes(1, 43);
    const std::array<Bytes, 1> parts{byte};
    for (int time = 0; time < 300; ++time) {
        Pair pair = connect_rings(64);
        std::jthread peer([&] {
            pair.one->try_send(parts);
            pair.one.reset();
        });
        std::size_t seen = 0;
        const auto text = loss([&] {
            while (seen == 0) seen = pair.other->peek(1).size();
        });
        expect(text.empty(), "the byte before the end");
    }
}

void test_a_ring_serves_once() {
    const auto mine = std::make_shared<Inbox>(Inbox::create({2, 64}));
    const auto theirs = std::make_shared<Inbox>(Inbox::create({2, 64}));
    {
        send_all(*std::make_unique<RingLink>(mine, 0, theirs, 1), random_bytes(4, 42));
    }
    try {
        RingLink again(mine, 0, theirs, 1);
    } catch (const std::invalid_argument&) {
        return;
    }
    expect(false, "a used ring to be refused");
}

/// The other one may need the rest before it takes anything.
void test_who_has_more_to_send_does_not_rest_while_there_is_room() {
    const auto pair = connect_socket_rings(ring_bytes);
    auto& link = dynamic_cast<unisono::SocketRingLink&>(*pair.one);
    send_all(link, random_bytes(ring_bytes - 1, 42));
    expect(!link.rest(true, true), "no rest with room for a byte");
    send_all(link, random_bytes(1, 43));
    expect(link.rest(true, true), "a rest when the ring is full");
}

}  // namespace

int main() {
    test_who_has_more_to_send_does_not_rest_while_there_is_room();
    test_a_broken_tail_is_a_lost_peer();
    test_a_tail_that_goes_back_is_a_lost_peer();
    test_a_broken_head_is_a_lost_peer();
    test_a_head_that_goes_back_is_a_lost_peer();
    test_a_reader_that_closed_is_noticed_when_there_is_no_room();
    test_counters_may_wrap_around_the_ring_many_times();
    test_a_last_byte_is_not_lost_when_the_close_follows_at_once();
    test_a_ring_serves_once();
}
