#include "server/connection.hpp"

#include <algorithm>
#include <array>

namespace unisono::server {

namespace {

constexpr std::size_t most_parts = 32;
constexpr std::size_t small = 16 << 10;  // is copied behind what waits already

}  // namespace

Connection::Connection(Fd socket) : link_(std::move(socket)) {}

bool Connection::next_header(Header& head) {
    if (!has_head_) {
        const auto target = std::as_writable_bytes(std::span(&head_, 1)).subspan(head_got_);
        head_got_ += link_.try_receive(target);
        if (head_got_ < sizeof head_) return false;
        require_valid(head_);
        has_head_ = true;
        payload_got_ = 0;
    }
    head = head_;
    return true;
}

bool Connection::fill(std::span<std::byte> target) {
    while (payload_got_ < target.size()) {
        const std::size_t count = link_.try_receive(target.subspan(payload_got_));
        if (count == 0) return false;
        payload_got_ += count;
    }
    has_head_ = false;
    head_got_ = 0;
    return true;
}

bool Connection::next(Header& head, Bytes& payload) {
    if (!next_header(head)) return false;
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
}

void Connection::send(Header head, std::vector<std::byte> payload) {
    if (payload.size() <= small) return send(head, Bytes(payload));
    head.length = static_cast<std::uint32_t>(payload.size());
    head = sealed(head);
    const Bytes start = bytes_of(head);
    auto& into = tail();
    into.insert(into.end(), start.begin(), start.end());
    waiting_ += sizeof head + payload.size();
    out_.push_back({std::move(payload), {}});
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
        std::size_t sent = link_.try_send(std::span(parts).first(count));
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
