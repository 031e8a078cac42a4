#include "transport/tcp/striped_link.hpp"

#include <poll.h>
#include <sys/ioctl.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "expect.hpp"
#include "pairs.hpp"
#include "traffic.hpp"

namespace {

using unisono::Bytes;
using unisono::Fd;
using unisono::Link;
using unisono::StripedLink;
using unisono::TcpLink;

/// One end is a link, the other are the bare sockets.
struct Bare {
    std::unique_ptr<StripedLink> link;
    std::vector<Fd> sockets;
};

Bare connect_bare(std::size_t streams, std::size_t stripe) {
    std::vector<Fd> ours;
    Bare bare;
    for (std::size_t stream = 0; stream < streams; ++stream) {
        auto sockets = connect_sockets(false);
        ours.push_back(std::move(sockets.one));
        bare.sockets.push_back(std::move(sockets.other));
    }
    bare.link = std::make_unique<StripedLink>(std::move(ours), stripe);
    return bare;
}

Buffer read_from(const Fd& socket, std::size_t size) {
    Buffer bytes(size);
    expect(::recv(socket.number(), bytes.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size), "bytes");
    return bytes;
}

void write_to(const Fd& socket, Bytes bytes) {
    expect(::send(socket.number(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
           "room for a few bytes");
}

void expect_nothing_in(const Fd& socket) {
    char byte = 0;
    expect(::recv(socket.number(), &byte, 1, MSG_DONTWAIT) < 0, "nothing there");
}

std::vector<pollfd> watched(const Link& link) {
    std::vector<pollfd> sockets;
    link.watch(sockets);
    return sockets;
}

void test_stripes_take_turns_and_nothing_is_added() {
    const Bare bare = connect_bare(3, 10);
    const auto bytes = random_bytes(47, 61);
    send_all(*bare.link, bytes);
    const auto part = [&](std::ptrdiff_t first, std::ptrdiff_t last) {
        return Buffer(bytes.begin() + first, bytes.begin() + last);
    };
    for (std::ptrdiff_t stream = 0; stream < 3; ++stream) {
        const auto& socket = bare.sockets[static_cast<std::size_t>(stream)];
        expect(read_from(socket, 10) == part(stream * 10, stream * 10 + 10), "the first stripes");
    }
    expect(read_from(bare.sockets[0], 10) == part(30, 40), "the first stream again");
    expect(read_from(bare.sockets[1], 7) == part(40, 47), "the rest");
    for (const auto& socket : bare.sockets) expect_nothing_in(socket);
}

void test_a_message_within_a_stripe_is_one_segment_on_one_stream() {
    const Bare bare = connect_bare(2, 1000);
    const auto header = random_bytes(24, 62), body = random_bytes(500, 63);
    const std::array<Bytes, 2> parts{header, body};
    expect(bare.link->try_send(parts) == 524, "all of it");
    pollfd arrival{bare.sockets[0].number(), POLLIN, 0};
    expect(::poll(&arrival, 1, 10'000) == 1, "an arrival");
    int waiting = 0;
    expect(::ioctl(arrival.fd, FIONREAD, &waiting) == 0 && waiting == 524, "both parts at once");
    expect_nothing_in(bare.sockets[1]);
}

void test_bytes_of_a_later_turn_wait() {
    const Bare bare = connect_bare(2, 8);
    const auto bytes = random_bytes(16, 64);
    write_to(bare.sockets[1], Bytes(bytes).subspan(8));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    Buffer target(16);
    expect(bare.link->peek(16).empty() && bare.link->try_receive(target) == 0, "not their turn");
    write_to(bare.sockets[0], Bytes(bytes).first(8));
    expect(receive_all(*bare.link, 16) == bytes, "both in order");
}

void test_only_the_streams_whose_turn_it_is_are_watched() {
    Bare bare = connect_bare(3, 10);
    expect(watched(*bare.link).size() == 1 && watched(*bare.link)[0].events == POLLIN, "what is read next");
    const int first = watched(*bare.link)[0].fd;
    write_to(bare.sockets[0], random_bytes(10, 65));
    expect(receive_all(*bare.link, 10) == random_bytes(10, 65), "a stripe");
    expect(watched(*bare.link)[0].fd != first, "the next stream after it");

    const auto bytes = random_bytes(100'000, 66);
    const std::array<Bytes, 1> parts{bytes};
    for (int idle = 0; idle < 20;) {
        idle = bare.link->try_send(parts) == 0 ? idle + 1 : 0;
        if (idle > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const auto now = watched(*bare.link);
    expect(now.size() == 2 && now[1].events == POLLOUT, "what has no room");
    expect(::poll(std::vector(now).data(), now.size(), 0) == 0, "nothing to wake up for");
}

void test_the_end_of_any_stream_ends_the_link() {
    Bare bare = connect_bare(2, 10);
    const auto bytes = random_bytes(10, 67);
    write_to(bare.sockets[0], bytes);
    const linger at_once{1, 0};
    ::setsockopt(bare.sockets[1].number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    bare.sockets.pop_back();
    expect(receive_all(*bare.link, 10) == bytes, "what had arrived");
    const auto reason = reason_of_loss(*bare.link, [&] { bare.link->peek(1); });
    expect(reason == "connection reset by the peer", "the reason");
    const std::array<Bytes, 1> parts{bytes};
    expect(reason_of_loss(*bare.link, [&] { bare.link->try_send(parts); }) == reason,
           "the same when sending, also on the stream that is left");
}

void test_many_parts_are_cut_at_the_ends_of_stripes() {
    Pair pair = connect_striped(3, 17, false);
    const auto bytes = random_bytes(5000, 68);
    std::vector<Bytes> parts;
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t size = std::min(at % 3, bytes.size() - at - 1);
        parts.push_back(Bytes(bytes).subspan(at, size));
        parts.push_back(Bytes(bytes).subspan(at + size, 1));
        at += size + 1;
    }
    std::size_t sent = 0;
    repeat_until(
        *pair.one, [&] { return sent == bytes.size(); },
        [&] {
            // What was sent is cut off, as whoever calls a link does.
            std::vector<Bytes> rest;
            std::size_t skipped = sent;
            for (const Bytes part : parts) {
                const std::size_t of_part = std::min(skipped, part.size());
                rest.push_back(part.subspan(of_part));
                skipped -= of_part;
            }
            const std::size_t count = pair.one->try_send(rest);
            sent += count;
            expect(pair.one->unsent() == (sent < bytes.size()), "unsent to count all parts");
            return count;
        });
    expect(receive_all(*pair.other, bytes.size()) == bytes, "all of them");
}

void test_one_socket_makes_a_plain_link_and_several_a_striped_one() {
    std::vector<Fd> one, two;
    one.push_back(std::move(connect_sockets(false).one));
    for (int time = 0; time < 2; ++time) two.push_back(std::move(connect_sockets(false).one));
    expect(dynamic_cast<TcpLink*>(unisono::link_over(std::move(one)).get()) != nullptr, "a plain link");
    expect(dynamic_cast<StripedLink*>(unisono::link_over(std::move(two)).get()) != nullptr, "a striped link");
    try {
        unisono::link_over({});
    } catch (const std::invalid_argument&) {
        return;
    }
    expect(false, "no link over nothing");
}

}  // namespace

int main() {
    test_stripes_take_turns_and_nothing_is_added();
    test_a_message_within_a_stripe_is_one_segment_on_one_stream();
    test_bytes_of_a_later_turn_wait();
    test_only_the_streams_whose_turn_it_is_are_watched();
    test_the_end_of_any_stream_ends_the_link();
    test_many_parts_are_cut_at_the_ends_of_stripes();
    test_one_socket_makes_a_plain_link_and_several_a_striped_one();
}
