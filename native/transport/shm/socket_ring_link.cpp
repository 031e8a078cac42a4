#include "transport/shm/socket_ring_link.hpp"

#include <sched.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "base/error.hpp"

namespace unisono {

namespace {

/// Before anything of it is used: a peer may send the descriptor of any segment.
std::shared_ptr<Inbox> checked(std::shared_ptr<Inbox> shared, const InboxSizes& sizes) {
    if (shared->ranks() != sizes.ranks || shared->ring_bytes() != sizes.ring_bytes ||
        shared->stage(0).size() != sizes.stage_bytes || !shared->heap_bytes().empty())
        throw SystemError("a shared segment has other sizes than a link's");
    return shared;
}

std::uint32_t this_core() { return static_cast<std::uint32_t>(::sched_getcpu() + 1); }

}  // namespace

SocketRingLink::SocketRingLink(Fd socket, std::shared_ptr<Inbox> shared, int side, std::size_t ring_bytes)
    : socket_(std::move(socket)),
      shared_(checked(std::move(shared), sizes(ring_bytes))),
      mine_(words(side)),
      theirs_(words(1 - side)),
      for_bytes_(theirs_.for_bytes, socket_),
      for_room_(theirs_.for_room, socket_),
      reader_(shared_->ring(1 - side), for_room_),
      writer_(shared_->ring(side), for_bytes_) {}

SocketRingLink::Words& SocketRingLink::words(int side) const {
    return *reinterpret_cast<Words*>(shared_->stage(static_cast<std::uint64_t>(side)).data());
}

std::size_t SocketRingLink::try_send(std::span<const Bytes> parts) {
    std::size_t offered = 0;
    for (const Bytes part : parts) offered += part.size();
    unsent_ = offered > 0;
    if (!unsent_) return 0;
    if (gone_) {  // its last words are read first
        if (reader_.stirs()) return 0;
        throw PeerLost("connection closed by the peer");
    }
    // Relaxed, as is its load: a hint.
    mine_.core.store(this_core(), std::memory_order_relaxed);
    const std::size_t sent = writer_.write(parts);
    unsent_ = sent < offered;
    return sent;
}

Bytes SocketRingLink::peek(std::size_t limit) { return reader_.peek(limit); }

void SocketRingLink::consume(std::size_t count) { reader_.consume(count); }

std::size_t SocketRingLink::try_receive(std::span<std::byte> into) {
    const std::size_t count = reader_.read(into);
    if (count == 0 && gone_ && !into.empty()) throw PeerLost("connection closed by the peer");
    return count;
}

void SocketRingLink::watch(std::vector<pollfd>& sockets) const {
    sockets.push_back({socket_.number(), POLLIN, 0});
}

void SocketRingLink::sever() {
    writer_.close();
    reader_.close();
    ::shutdown(socket_.number(), SHUT_RDWR);
}

bool SocketRingLink::stirs(bool listens, bool wants_room) const {
    return gone_ || (listens && reader_.stirs()) || (wants_room && writer_.stirs());
}

bool SocketRingLink::rest(bool listens, bool wants_room) {
    const std::pair wanted(listens, wants_room);
    if (rests_for_ == wanted) return !gone_;  // who has news since then has sent a byte
    rests_for_ = wanted;
    // Sequentially consistent, before the look at the news: see SocketBell.
    mine_.for_bytes.store(listens, std::memory_order_seq_cst);
    mine_.for_room.store(wants_room, std::memory_order_seq_cst);
    if (!stirs(listens, wants_room)) return true;
    awake();
    return false;
}

bool SocketRingLink::shares_core() const {
    return theirs_.core.load(std::memory_order_relaxed) == this_core();
}

void SocketRingLink::woken() {
    std::array<char, 64> rings;
    const ssize_t count = ::recv(socket_.number(), rings.data(), rings.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) gone_ = true;
}

void SocketRingLink::awake() {
    if (!std::exchange(rests_for_, std::nullopt)) return;
    // Relaxed: a peer that still sees them sends a byte too many.
    mine_.for_bytes.store(0, std::memory_order_relaxed);
    mine_.for_room.store(0, std::memory_order_relaxed);
}

}  // namespace unisono
