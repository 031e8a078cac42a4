// What every kind of link has to do.

#include <chrono>
#include <string>
#include <thread>

#include "pairs.hpp"
#include "traffic.hpp"

namespace {

using unisono::Bytes;
using unisono::Link;

void test_megabytes_arrive_in_order(Pair pair, std::size_t volume) {
    const auto bytes = random_bytes(volume, 11);
    std::jthread sender([&] { send_all(*pair.one, bytes); });
    expect(receive_all(*pair.other, bytes.size()) == bytes, "the bytes that were sent");
}

void test_both_directions_go_at_once(Pair pair, std::size_t volume) {
    const auto there = random_bytes(volume, 12);
    const auto back = random_bytes(volume / 2, 13);
    Buffer here(back.size());
    Buffer away(there.size());
    std::jthread other([&] { exchange(*pair.other, back, away, 3); });
    exchange(*pair.one, there, here, 4);
    other.join();
    expect(here == back && away == there, "both directions to be unharmed");
}

void test_nothing_to_read_is_not_an_error(Pair pair) {
    Buffer target(10);
    expect(pair.one->peek(10).empty(), "nothing to peek at");
    expect(pair.one->try_receive(target) == 0, "nothing to receive");
}

void test_zero_bytes_are_nothing(Pair pair) {
    const std::array<Bytes, 3> parts{};
    expect(pair.one->try_send({}) == 0 && pair.one->try_send(parts) == 0, "nothing sent");
    expect(!pair.one->unsent(), "nothing left over");
    send_all(*pair.one, random_bytes(3, 14));
    expect(pair.other->peek(0).empty() && pair.other->try_receive({}) == 0, "nothing asked for, nothing got");
    pair.other->consume(0);
    expect(receive_all(*pair.other, 3) == random_bytes(3, 14), "what is not nothing");
}

void test_what_does_not_fit_is_kept_by_the_sender(Pair pair) {
    const auto bytes = random_bytes(100'000, 15);
    const std::array<Bytes, 1> parts{bytes};
    Buffer sent;
    for (std::size_t idle = 0; idle < 20;) {  // TCP takes a while to find that its buffers are full
        const std::size_t count = pair.one->try_send(parts);
        sent.insert(sent.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
        idle = count == 0 ? idle + 1 : 0;
        if (count == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    expect(pair.one->unsent(), "something left over");
    std::jthread sender([&] { send_all(*pair.one, bytes); });
    sent.insert(sent.end(), bytes.begin(), bytes.end());
    expect(receive_all(*pair.other, sent.size()) == sent, "exactly the bytes that try_send took");
    sender.join();
    expect(!pair.one->unsent(), "nothing left over");
}

void test_a_peeked_byte_is_there_until_it_is_consumed(Pair pair) {
    const auto bytes = random_bytes(60, 16);
    send_all(*pair.one, bytes);
    Bytes shown;
    wait_until(*pair.other, [&] { return !(shown = pair.other->peek(5)).empty(); });
    expect(shown[0] == bytes[0], "the first byte");
    expect(pair.other->peek(5)[0] == bytes[0], "the first byte again");
    pair.other->consume(1);
    expect(receive_all(*pair.other, 59) == Buffer(bytes.begin() + 1, bytes.end()), "the others");
}

void test_a_message_may_arrive_before_or_after_it_is_awaited(Pair pair) {
    const auto bytes = random_bytes(40, 17);
    send_all(*pair.one, bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    expect(receive_all(*pair.other, 40) == bytes, "what was there before");
    std::jthread sender([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        send_all(*pair.one, bytes);
    });
    expect(receive_all(*pair.other, 40) == bytes, "what came later");
}

void test_what_was_sent_before_the_peer_closed_arrives(Pair pair, std::size_t volume) {
    const auto bytes = random_bytes(volume, 18);
    std::jthread sender([&] {
        send_all(*pair.one, bytes);
        pair.one.reset();
    });
    expect(receive_all(*pair.other, bytes.size()) == bytes, "all of it");
    Buffer target(10);
    for (int time = 0; time < 2; ++time) {
        const auto peeking = reason_of_loss(*pair.other, [&] { pair.other->peek(10); });
        const auto receiving = reason_of_loss(*pair.other, [&] { pair.other->try_receive(target); });
        expect(peeking.ends_with("closed by the peer"), "the reason when peeking, every time");
        expect(receiving.ends_with("closed by the peer"), "the reason when receiving, every time");
    }
}

void test_a_receive_returns_the_last_bytes_before_it_reports_the_loss(Pair pair) {
    const auto bytes = random_bytes(50, 19);
    send_all(*pair.one, bytes);
    pair.one.reset();
    Buffer target(100);
    std::size_t have = 0;
    reason_of_loss(*pair.other, [&] { have += pair.other->try_receive(std::span(target).subspan(have)); });
    target.resize(have);
    expect(target == bytes, "the last bytes");
}

void test_sending_to_a_peer_that_closed_fails(Pair pair) {
    pair.other.reset();
    const auto bytes = random_bytes(1000, 20);
    const std::array<Bytes, 1> parts{bytes};
    const auto reason = reason_of_loss(*pair.one, [&] { pair.one->try_send(parts); });
    expect(reason.find("by the peer") != std::string::npos, "who is the reason");
    expect(reason_of_loss(*pair.one, [&] { pair.one->try_send(parts); }) == reason, "the same reason again");
}

void test_a_severed_link_ends_after_what_was_sent(Pair pair) {
    const auto bytes = random_bytes(50, 21);
    send_all(*pair.one, bytes);
    pair.one->sever();
    expect(receive_all(*pair.other, 50) == bytes, "what was sent before");
    expect(reason_of_loss(*pair.other, [&] { pair.other->peek(10); }).ends_with("closed by the peer"),
           "the loss of the peer, although it holds its end");
    const std::array<Bytes, 1> parts{bytes};
    const auto sending = reason_of_loss(*pair.other, [&] { pair.other->try_send(parts); });
    expect(sending.find("by the peer") != std::string::npos, "the same when sending");
}

void test_a_loop_with_a_deadline_gives_up(Pair pair) {
    using Clock = std::chrono::steady_clock;
    const std::array<const Link*, 1> links{pair.one.get()};
    unisono::Waiter waiter(links, unisono::Patience());
    const auto start = Clock::now();
    while (pair.one->peek(1).empty() && Clock::now() - start < std::chrono::milliseconds(30)) waiter.pause();
    expect(Clock::now() - start < std::chrono::seconds(20),
           "to give up soon after 30 ms, on a quiet machine");
}

void run(const Kind& kind) {
    std::cout << kind.name << std::endl;
    test_megabytes_arrive_in_order(kind.connect(), kind.volume);
    test_both_directions_go_at_once(kind.connect(), kind.volume);
    test_nothing_to_read_is_not_an_error(kind.connect());
    test_zero_bytes_are_nothing(kind.connect());
    test_what_does_not_fit_is_kept_by_the_sender(kind.connect());
    test_a_peeked_byte_is_there_until_it_is_consumed(kind.connect());
    test_a_message_may_arrive_before_or_after_it_is_awaited(kind.connect());
    test_what_was_sent_before_the_peer_closed_arrives(kind.connect(), kind.volume);
    test_a_receive_returns_the_last_bytes_before_it_reports_the_loss(kind.connect());
    test_sending_to_a_peer_that_closed_fails(kind.connect());
    test_a_severed_link_ends_after_what_was_sent(kind.connect());
    test_a_loop_with_a_deadline_gives_up(kind.connect());
}

}  // namespace

int main() {
    for (const auto& kind : kinds_of_links()) run(kind);
}
