#include "transport/tcp/tcp_link.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>

#include "expect.hpp"
#include "pairs.hpp"
#include "traffic.hpp"

namespace {

using unisono::Bytes;
using unisono::Fd;
using unisono::TcpLink;

int option(int socket, int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    expect(::getsockopt(socket, level, name, &value, &length) == 0, "an option to be readable");
    return value;
}

void test_the_socket_is_set_up() {
    auto sockets = connect_sockets(false);
    const TcpLink link(std::move(sockets.one), {.give_up_after = std::chrono::seconds(7)});
    const int socket = link.descriptor();
    expect((::fcntl(socket, F_GETFL) & O_NONBLOCK) != 0, "a socket that does not block");
    expect(option(socket, IPPROTO_TCP, TCP_NODELAY) != 0, "no waiting for more to send");
    expect(option(socket, SOL_SOCKET, SO_KEEPALIVE) != 0, "probes of an idle connection");
    expect(option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT) == 7000, "the patience that was asked for");
}

std::string congestion_control(int socket) {
    std::array<char, 16> name{};
    socklen_t length = name.size();
    expect(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0, "a name");
    return name.data();
}

/// What a link makes of a socket with this congestion control; nothing if the host does not have it.
std::string made_of(const std::string& chosen) {
    auto sockets = connect_sockets(false);
    const int socket = sockets.one.number();
    if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, chosen.data(),
                     static_cast<socklen_t>(chosen.size())) != 0)
        return {};
    const TcpLink link(std::move(sockets.one));
    return congestion_control(socket);
}

void test_no_connection_is_paced_and_other_choices_are_kept() {
    const bool has_cubic = made_of("cubic") == "cubic";
    const auto of_bbr = made_of("bbr"), of_reno = made_of("reno");
    expect(of_bbr.empty() || of_bbr == (has_cubic ? "cubic" : "bbr"), "cubic instead of BBR");
    expect(of_reno.empty() || of_reno == "reno", "what else was chosen");
}

void test_a_bad_descriptor_is_a_system_error() {
    try {
        TcpLink link{Fd()};
    } catch (const unisono::SystemError& error) {
        expect(std::string(error.what()).find("Bad file descriptor") != std::string::npos, "the reason");
        return;
    }
    expect(false, "a SystemError");
}

void test_a_reset_is_told_from_a_close() {
    auto sockets = connect_sockets(false);
    TcpLink link(std::move(sockets.one));
    const linger at_once{1, 0};
    ::setsockopt(sockets.other.number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    {
        const Fd closed = std::move(sockets.other);
    }
    for (int time = 0; time < 2; ++time)
        expect(reason_of_loss(link, [&] { link.peek(1); }) == "connection reset by the peer", "a reset");
}

void test_a_failed_send_leaves_what_has_arrived_readable() {
    Pair pair = connect_tcp(false);
    const auto last_words = random_bytes(50'000, 31);
    send_all(*pair.other, last_words);
    pair.other.reset();
    const auto bytes = random_bytes(1000, 32);
    const std::array<Bytes, 1> parts{bytes};
    const auto reason = reason_of_loss(*pair.one, [&] { pair.one->try_send(parts); });
    expect(receive_all(*pair.one, last_words.size()) == last_words, "the peer's last words");
    expect(reason_of_loss(*pair.one, [&] { pair.one->peek(1); }) == reason, "the first reason");
}

void test_many_parts_are_sent_in_several_calls() {
    Pair pair = connect_tcp(false);
    const auto bytes = random_bytes(2000, 33);
    std::vector<Bytes> parts;
    for (const auto& byte : bytes) parts.emplace_back(&byte, 1);
    std::size_t sent = 0;
    repeat_until(
        *pair.one, [&] { return sent == parts.size(); },
        [&] {
            const std::size_t count = pair.one->try_send(std::span(parts).subspan(sent));
            expect(pair.one->unsent() == (sent + count < parts.size()), "unsent to count all parts");
            sent += count;
            return count;
        });
    expect(receive_all(*pair.other, bytes.size()) == bytes, "all of them");
}

}  // namespace

int main() {
    test_the_socket_is_set_up();
    test_no_connection_is_paced_and_other_choices_are_kept();
    test_a_bad_descriptor_is_a_system_error();
    test_a_reset_is_told_from_a_close();
    test_a_failed_send_leaves_what_has_arrived_readable();
    test_many_parts_are_sent_in_several_calls();
}
