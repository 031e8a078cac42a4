#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "expect.hpp"
#include "transport/shm/ring_link.hpp"
#include "transport/shm/socket_ring_link.hpp"
#include "transport/tcp/striped_link.hpp"

/// Two ends of one link, both in this process, so that the thread sanitizer sees both.
struct Pair {
    std::unique_ptr<unisono::Link> one;
    std::unique_ptr<unisono::Link> other;
};

struct Kind {
    std::string name;
    std::size_t volume;  // bytes that it moves in a moment
    std::function<Pair()> connect;
};

struct Sockets {
    unisono::Fd one;
    unisono::Fd other;
};

/// A connection over loopback.
inline Sockets connect_sockets(bool tiny_buffers) {
    const auto shrink = [&](const unisono::Fd& socket) {
        // With less, windows get smaller than a segment, and every one waits for a timer of 200 ms.
        const int tiny = 4096;
        if (!tiny_buffers) return;
        ::setsockopt(socket.number(), SOL_SOCKET, SO_SNDBUF, &tiny, sizeof tiny);
        ::setsockopt(socket.number(), SOL_SOCKET, SO_RCVBUF, &tiny, sizeof tiny);
    };
    const unisono::Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    shrink(listener);  // before listen: what accept returns inherits it
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    expect(::bind(listener.number(), general, length) == 0, "a free port");
    expect(::listen(listener.number(), 1) == 0, "a listening socket");
    expect(::getsockname(listener.number(), general, &length) == 0, "a port number");
    unisono::Fd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    shrink(one);
    expect(::connect(one.number(), general, length) == 0, "a connection");
    unisono::Fd other(::accept(listener.number(), nullptr, nullptr));
    expect(other.valid(), "an accepted connection");
    return {std::move(one), std::move(other)};
}

inline Pair connect_tcp(bool tiny_buffers) {
    auto sockets = connect_sockets(tiny_buffers);
    return {std::make_unique<unisono::TcpLink>(std::move(sockets.one)),
            std::make_unique<unisono::TcpLink>(std::move(sockets.other))};
}

inline Pair connect_striped(std::size_t streams, std::size_t stripe, bool tiny_buffers) {
    std::vector<unisono::Fd> ones, others;
    for (std::size_t stream = 0; stream < streams; ++stream) {
        auto sockets = connect_sockets(tiny_buffers);
        ones.push_back(std::move(sockets.one));
        others.push_back(std::move(sockets.other));
    }
    return {std::make_unique<unisono::StripedLink>(std::move(ones), stripe),
            std::make_unique<unisono::StripedLink>(std::move(others), stripe)};
}

inline Pair connect_rings(std::size_t ring_bytes) {
    const auto first = std::make_shared<unisono::Inbox>(unisono::Inbox::create({3, ring_bytes}));
    const auto second = std::make_shared<unisono::Inbox>(unisono::Inbox::create({3, ring_bytes}));
    return {std::make_unique<unisono::RingLink>(first, 1, second, 2),
            std::make_unique<unisono::RingLink>(second, 2, first, 1)};
}

inline Pair connect_socket_rings(std::size_t ring_bytes) {
    using unisono::SocketRingLink;
    int ends[2];
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    unisono::Fd one(ends[0]), other(ends[1]);
    const auto shared =
        std::make_shared<unisono::Inbox>(unisono::Inbox::create(SocketRingLink::sizes(ring_bytes)));
    return {std::make_unique<SocketRingLink>(std::move(one), shared, 0, ring_bytes),
            std::make_unique<SocketRingLink>(std::move(other), shared, 1, ring_bytes)};
}

/// Every kind of link, each as it is used and with so little room that everything comes in pieces.
inline std::vector<Kind> kinds_of_links() {
    return {{"tcp", 4'000'000, [] { return connect_tcp(false); }},
            {"tcp with tiny buffers", 2'000'000, [] { return connect_tcp(true); }},
            {"1 stream in stripes of 100 bytes", 500'000, [] { return connect_striped(1, 100, true); }},
            {"2 streams", 4'000'000,
             [] { return connect_striped(2, unisono::StripedLink::usual_stripe, false); }},
            {"2 streams with tiny buffers", 1'000'000, [] { return connect_striped(2, 3000, true); }},
            {"4 streams in stripes of 7 bytes", 100'000, [] { return connect_striped(4, 7, true); }},
            {"rings of 64 bytes", 2'000'000, [] { return connect_rings(64); }},
            {"rings of 64 KiB", 4'000'000, [] { return connect_rings(64 * 1024); }},
            {"rings of 64 bytes beside a socket", 2'000'000, [] { return connect_socket_rings(64); }},
            {"rings of 64 KiB beside a socket", 4'000'000, [] { return connect_socket_rings(64 * 1024); }}};
}
