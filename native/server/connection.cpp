#include "server/connection.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "transport/tcp/tcp_link.hpp"

namespace unisono::server {

namespace {

constexpr std::size_t most_parts = 32;
constexpr std::size_t small = 16 << 10;  // is copied behind what waits already

}  // namespace

Connection::Connection(Fd socket) : descriptor_(socket.number()) {
    link_ = std::make_unique<TcpLink>(std::move(socket));
}

Connection::Connection(Fd socket, std::shared_ptr<Inbox> shared, int side) : descriptor_(socket.number()) {
    auto link = std::make_unique<SocketRingLink>(std::move(socket), std::move(shared), side, ring_bytes);
    shared_ = link.get();
    link_ = std::move(link);
}

std::uint32_t Connection::events(bool listens) const {
    if (shared_) return POLLIN;  // rings for room come in, too
    return static_cast<std::uint32_t>((listens ? POLLIN : 0) | (waiting_ > 0 ? POLLOUT : 0));
}

bool Connection::next_header(Header& head) {
    if (!has_head_) {
        const auto target = std::as_writable_bytes(std::span(&head_, 1)).subspan(head_got_);
        head_got_ += link_->try_receive(target);
        if (head_got_ < sizeof head_) return false;
        require_valid(head_);
        has_head_ = true;
        payload_got_ = 0;
    }
    head = head_;
    return true;
}

bool Connection::fill(std::span<std::byte> target) {
    std::array<std::byte, alignof(std::int64_t)> ignored;
    const std::size_t all = target.size() + padding_of(target.size());
    while (payload_got_ < all) {
        const std::size_t count =
            link_->try_receive(payload_got_ < target.size() ? target.subspan(payload_got_)
                                                            : std::span(ignored).first(all - payload_got_));
        if (count == 0) return false;
        payload_got_ += count;
    }
    has_head_ = false;
    head_got_ = 0;
    return true;
}

/// Only values are used from where they are: of everything else, what was checked has to be what is used.
/// They begin with keys, which are aligned, as all frames are.
bool Connection::lies_together(const Header& head) const {
    if (!shared_ || payload_got_ > 0 || !is_push(head.kind)) return false;
    return shared_->stretch() >= head.length + padding_of(head.length);
}

bool Connection::show(const Header& head, Bytes& payload) {
    const std::size_t all = head.length + padding_of(head.length);
    Bytes seen = shared_->peek(all);
    if (seen.size() < all && shared_->over()) {
        seen = shared_->peek(all);  // the last of it may have come just before the end
        if (seen.size() < all) throw PeerLost("connection closed by the peer in a frame");
    }
    if (seen.size() < all) return false;
    shown_ = all;
    has_head_ = false;
    head_got_ = 0;
    payload = seen.first(head.length);
    return true;
}

void Connection::release() {
    if (shown_ > 0) shared_->consume(std::exchange(shown_, 0));
}

bool Connection::next(Header& head, Bytes& payload) {
    release();
    if (!next_header(head)) return false;
    if (lies_together(head)) return show(head, payload);
    if (head.length > room_) {
        payload_ = std::make_unique_for_overwrite<std::byte[]>(head.length);
        room_ = head.length;
    }
    const std::span target(payload_.get(), head.length);
    if (!fill(target)) return false;
    payload = target;
    return true;
}

std::vector<std::byte>& Connection::tail() {
    if (out_.empty() || !out_.back().lent.empty() || out_.back().owned.size() > small) out_.emplace_back();
    return out_.back().owned;
}

void Connection::send(Header head, Bytes payload) {
    head.length = static_cast<std::uint32_t>(payload.size());
    head = sealed(head);
    auto& into = tail();
    const Bytes start = bytes_of(head);
    into.insert(into.end(), start.begin(), start.end());
    into.insert(into.end(), payload.begin(), payload.end());
    waiting_ += sizeof head + payload.size();
    pad(payload.size());
}

void Connection::send(Header head, std::vector<std::byte> payload) {
    if (payload.size() <= small) return send(head, Bytes(payload));
    head.length = static_cast<std::uint32_t>(payload.size());
    head = sealed(head);
    const Bytes start = bytes_of(head);
    auto& into = tail();
    into.insert(into.end(), start.begin(), start.end());
    waiting_ += sizeof head + payload.size();
    const std::size_t length = payload.size();
    out_.push_back({std::move(payload), {}});
    pad(length);
}

void Connection::lend(Header head, Bytes payload) { send_in_two(head, {}, payload); }

void Connection::send_in_two(Header head, Bytes copied, Bytes lent) {
    head.length = static_cast<std::uint32_t>(copied.size() + lent.size());
    head = sealed(head);
    auto& into = tail();
    const Bytes start = bytes_of(head);
    into.insert(into.end(), start.begin(), start.end());
    into.insert(into.end(), copied.begin(), copied.end());
    waiting_ += sizeof head + head.length;
    if (lent.size() > small)
        out_.push_back({{}, lent});
    else
        into.insert(into.end(), lent.begin(), lent.end());
    pad(head.length);
}

void Connection::pad(std::size_t payload) {
    const std::size_t padding = padding_of(payload);
    if (padding == 0) return;
    auto& into = tail();
    into.resize(into.size() + padding);
    waiting_ += padding;
}

void Connection::keep_lent() {
    for (Segment& segment : out_) {
        if (segment.lent.empty()) continue;
        segment.owned.assign(segment.lent.begin(), segment.lent.end());
        segment.lent = {};
    }
}

bool Connection::flush() {
    while (!out_.empty()) {
        std::array<Bytes, most_parts> parts;
        std::size_t count = 0, offered = 0;
        for (const Segment& segment : out_) {
            if (count == most_parts) break;
            parts[count] = segment.bytes().subspan(count == 0 ? sent_ : 0);
            offered += parts[count++].size();
        }
        std::size_t sent = link_->try_send(std::span(parts).first(count));
        waiting_ -= sent;
        const bool all = sent == offered;
        for (sent += sent_; !out_.empty() && sent >= out_.front().bytes().size(); out_.pop_front())
            sent -= out_.front().bytes().size();
        sent_ = sent;
        if (!all) return false;
    }
    return true;
}

}  // namespace unisono::server
