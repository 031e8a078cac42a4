#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "server/content.hpp"
#include "transport/tcp/tcp_link.hpp"

namespace unisono::server {

/// Frames over an authenticated connection, at one end of it. Nothing blocks. A peer that is gone is a
/// PeerLost, nonsense a Malformed; both end the connection.
class Connection {
  public:
    explicit Connection(Fd socket);

    int descriptor() const { return link_.descriptor(); }

    /// The next frame, if all of it has arrived. Its payload is valid until the next call.
    bool next(Header& head, Bytes& payload);
    /// The same in two steps: a header, and then its payload, straight to where it belongs.
    bool next_header(Header& head);
    bool fill(std::span<std::byte> target);

    /// Frames go when flush is called, in the order of these calls.
    void send(Header head, Bytes payload = {});
    void send(Header head, std::vector<std::byte> payload);
    /// The memory stays as it is, and is not copied, until all has gone.
    void lend(Header head, Bytes payload);
    /// One payload of two parts: the first is copied, the second is lent.
    void send_in_two(Header head, Bytes copied, Bytes lent);
    /// True when nothing is left.
    bool flush();
    /// Bytes that wait to go.
    std::size_t waiting() const { return waiting_; }

  private:
    struct Segment {
        std::vector<std::byte> owned;
        Bytes lent;
        Bytes bytes() const { return lent.empty() ? Bytes(owned) : lent; }
    };
    std::vector<std::byte>& tail();

    TcpLink link_;
    Header head_;
    std::size_t head_got_ = 0;
    bool has_head_ = false;
    std::unique_ptr<std::byte[]> payload_;
    std::size_t room_ = 0;
    std::size_t payload_got_ = 0;
    std::deque<Segment> out_;
    std::size_t sent_ = 0;  // of the first segment
    std::size_t waiting_ = 0;
};

}  // namespace unisono::server
