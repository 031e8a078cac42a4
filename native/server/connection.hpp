#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "server/content.hpp"
#include "transport/shm/socket_ring_link.hpp"

namespace unisono::server {

/// Frames over an authenticated connection, at one end of it. Nothing blocks. A peer that is gone is a
/// PeerLost, nonsense a Malformed; both end the connection.
class Connection {
  public:
    /// Of each of the two rings through which a worker and a shard of one host talk. What a dense table sends
    /// at a time has to fit more than twice: one is written while the other is read.
    static constexpr std::size_t ring_bytes = std::size_t{1} << 20;

    explicit Connection(Fd socket);
    /// Bytes go through memory, and the socket rings: see SocketRingLink.
    Connection(Fd socket, std::shared_ptr<Inbox> shared, int side);

    int descriptor() const { return descriptor_; }

    /// The next frame, if all of it has arrived. Its payload is valid until `release` or the next call;
    /// values that came through shared memory lie there, where a broken peer may change them meanwhile.
    bool next(Header& head, Bytes& payload);
    void release();
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
    /// What was lent and has not gone is copied: its owner may use it again.
    void keep_lent();
    /// True when nothing is left.
    bool flush();
    /// Bytes that wait to go.
    std::size_t waiting() const { return waiting_; }

    // What epoll or poll has to know, and, where memory is shared, what it cannot know: see SocketRingLink.
    bool shares_memory() const { return shared_ != nullptr; }
    std::uint32_t events(bool listens) const;
    bool stirs(bool listens) const { return shared_ && shared_->stirs(listens, waiting_ > 0); }
    bool rest(bool listens) { return !shared_ || shared_->rest(listens, waiting_ > 0); }
    void woken() {
        if (shared_) shared_->woken();
    }
    void awake() {
        if (shared_) shared_->awake();
    }
    bool shares_core() const { return shared_ && shared_->shares_core(); }
    /// Nobody is there any more, as far as this can be known without reading.
    bool over() const { return shared_ && shared_->over(); }

  private:
    struct Segment {
        std::vector<std::byte> owned;
        Bytes lent;
        Bytes bytes() const { return lent.empty() ? Bytes(owned) : lent; }
    };
    std::vector<std::byte>& tail();
    void pad(std::size_t payload);
    bool lies_together(const Header& head) const;
    bool show(const Header& head, Bytes& payload);

    std::unique_ptr<Link> link_;
    SocketRingLink* shared_ = nullptr;  // the link, if it is one
    int descriptor_;
    std::size_t shown_ = 0;  // bytes of the rings that are still looked at
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
