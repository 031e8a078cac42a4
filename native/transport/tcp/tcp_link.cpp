#include "transport/tcp/tcp_link.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.hpp"

namespace unisono {

namespace {

constexpr std::size_t buffer_bytes = 128 * 1024;

/// A read of known length also takes this much of what follows: the next header and a small message come
/// without a call of their own, and of a large message only this much is copied twice.
constexpr std::size_t read_ahead = 4096;

/// Of more parts than this, a call sends the first ones.
constexpr std::size_t max_parts = 64;

/// A socket that refuses a wish is slower, not wrong.
void prefer(int socket, int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
}

/// BBR, which may be the host's default, paces loopback to about half of what it can do. What else an
/// administrator chose is left alone (DCTCP in a data centre).
void avoid_pacing(int socket) {
    std::array<char, 16> chosen{};  // TCP_CA_NAME_MAX
    socklen_t length = chosen.size();
    if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, chosen.data(), &length) != 0) return;
    if (!std::string_view(chosen.data(), length).starts_with("bbr")) return;
    constexpr std::string_view cubic = "cubic";
    ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, cubic.data(), cubic.size());
}

void tune(int socket, const TcpPatience& patience) {
    prefer(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    avoid_pacing(socket);

    const auto probe = static_cast<int>(patience.probe_after.count());
    prefer(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    prefer(socket, IPPROTO_TCP, TCP_KEEPIDLE, probe);
    prefer(socket, IPPROTO_TCP, TCP_KEEPINTVL, probe);
    prefer(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(patience.give_up_after.count()));
}

/// An address, without the port.
using Host = std::array<std::byte, sizeof(in6_addr)>;

Host host_of(const sockaddr_storage& address) {
    Host host{};
    if (address.ss_family == AF_INET)
        std::memcpy(host.data(), &reinterpret_cast<const sockaddr_in&>(address).sin_addr, sizeof(in_addr));
    else if (address.ss_family == AF_INET6)
        std::memcpy(host.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, sizeof(in6_addr));
    return host;
}

/// A host that reaches itself has the same address at both ends.
bool has_ends_on_two_hosts(int socket) {
    sockaddr_storage own{}, peers{};
    socklen_t length = sizeof own;
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) != 0) return false;
    length = sizeof peers;
    if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peers), &length) != 0) return false;
    return host_of(own) != host_of(peers);
}

bool means_not_now(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/// Why the peer can no longer be reached; empty if the error is not about the peer.
std::string reason_of_loss(int error) {
    switch (error) {
        case EPIPE:
            return "connection closed by the peer";
        case ECONNRESET:
            return "connection reset by the peer";
        case ETIMEDOUT:
            return "connection timed out: the peer's host does not answer";
        case ECONNABORTED:
        case ENOTCONN:
        case EHOSTUNREACH:
        case EHOSTDOWN:
        case ENETUNREACH:
        case ENETDOWN:
            return std::string("connection lost: ") + std::strerror(error);
        default:
            return {};
    }
}

}  // namespace

TcpLink::TcpLink(Fd socket, TcpPatience patience)
    : socket_(std::move(socket)), buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_bytes)) {
    const int flags = ::fcntl(socket_.number(), F_GETFL);
    if (flags < 0 || ::fcntl(socket_.number(), F_SETFL, flags | O_NONBLOCK) < 0)
        throw_errno("making a socket non-blocking");
    tune(socket_.number(), patience);
    leaves_host_ = has_ends_on_two_hosts(socket_.number());
}

std::size_t TcpLink::try_send(std::span<const Bytes> parts) {
    std::array<iovec, max_parts> pieces;
    std::size_t count = 0;
    std::size_t offered = 0;
    for (const Bytes part : parts) {
        offered += part.size();
        if (part.empty() || count == max_parts) continue;
        pieces[count++] = {const_cast<std::byte*>(part.data()), part.size()};
    }
    unsent_ = offered > 0;
    if (!unsent_) return 0;
    if (!lost_.empty()) throw PeerLost(lost_);

    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket_.number(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
        if (means_not_now(errno)) return 0;
        const std::string reason = reason_of_loss(errno);
        if (reason.empty()) throw_errno("sending to a peer");
        lose(reason);
    }
    unsent_ = static_cast<std::size_t>(sent) < offered;
    return static_cast<std::size_t>(sent);
}

Bytes TcpLink::peek(std::size_t limit) {
    if (limit == 0) return {};
    if (buffered() == 0) receive({}, buffer_bytes);
    return {buffer_.get() + first_, std::min(limit, buffered())};
}

void TcpLink::consume(std::size_t count) {
    assert(count <= buffered());
    first_ += count;
}

std::size_t TcpLink::try_receive(std::span<std::byte> into) {
    const std::size_t had = drain(into);
    if (had == into.size()) return had;
    try {
        return had + receive(into.subspan(had), read_ahead);
    } catch (const PeerLost&) {
        if (had == 0) throw;
        return had;  // the next call finds the same reason
    }
}

void TcpLink::watch(std::vector<pollfd>& sockets) const {
    sockets.push_back({socket_.number(), static_cast<short>(unsent_ ? POLLIN | POLLOUT : POLLIN), 0});
}

void TcpLink::sever() { ::shutdown(socket_.number(), SHUT_RDWR); }

bool TcpLink::unsent() const { return unsent_; }

std::size_t TcpLink::buffered() const { return last_ - first_; }

std::size_t TcpLink::drain(std::span<std::byte> into) {
    const std::size_t count = std::min(into.size(), buffered());
    if (count == 0) return 0;
    std::memcpy(into.data(), buffer_.get() + first_, count);
    first_ += count;
    return count;
}

std::size_t TcpLink::receive(std::span<std::byte> into, std::size_t ahead) {
    assert(buffered() == 0);
    first_ = last_ = 0;
    std::array<iovec, 2> pieces{iovec{into.data(), into.size()}, iovec{buffer_.get(), ahead}};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t result = ::recvmsg(socket_.number(), &message, 0);
    if (result < 0) {
        if (means_not_now(errno)) return 0;
        const std::string reason = reason_of_loss(errno);
        if (reason.empty()) throw_errno("receiving from a peer");
        lose(reason);
    }
    if (result == 0) lose("connection closed by the peer");
    const auto count = static_cast<std::size_t>(result);
    last_ = count - std::min(count, into.size());
    return count - last_;
}

void TcpLink::lose(const std::string& reason) {
    if (lost_.empty()) lost_ = reason;
    throw PeerLost(lost_);
}

}  // namespace unisono
