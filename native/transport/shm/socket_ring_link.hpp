#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "transport/link.hpp"
#include "transport/shm/inbox.hpp"
#include "transport/shm/ring.hpp"
#include "transport/shm/socket_bell.hpp"

namespace unisono {

/// A link between two processes of one host whose ends sleep in poll(2), among other sockets: bytes go
/// through two rings in memory that both map, and a stream socket rings for who sleeps. The end of the socket
/// is the end of the peer, however it died.
///
/// Who waits does, in this order: rest, and poll for POLLIN if that says so; woken, if there was something;
/// awake; look.
class SocketRingLink final : public Link {
  public:
    /// What both map: an inbox of two rings, one for each side to write to, and a place for its words.
    static InboxSizes sizes(std::size_t ring_bytes) {
        return {.ranks = 2, .ring_bytes = ring_bytes, .stage_bytes = cache_line};
    }

    /// Side 0 has made the memory, side 1 has mapped it. SystemError if it is not what `sizes` says.
    SocketRingLink(Fd socket, std::shared_ptr<Inbox> shared, int side, std::size_t ring_bytes);

    std::size_t try_send(std::span<const Bytes> parts) override;
    Bytes peek(std::size_t limit) override;
    void consume(std::size_t count) override;
    std::size_t try_receive(std::span<std::byte> into) override;
    void watch(std::vector<pollfd>& sockets) const override;
    void sever() override;
    bool unsent() const override { return unsent_; }

    int descriptor() const { return socket_.number(); }
    /// See RingReader.
    std::size_t stretch() const { return reader_.stretch(); }
    /// The peer has closed its end, or died: what can still be read is all that there will be.
    bool over() const { return gone_ || reader_.closed(); }

    /// Is there news since the last look: bytes, if it listens, or room, if that is wanted?
    bool stirs(bool listens, bool wants_room) const;
    /// Asks to be woken for them. False if there is no need to sleep.
    bool rest(bool listens, bool wants_room);
    /// The socket has something: takes the rings from it.
    void woken();
    /// Nobody has to ring any more.
    void awake();
    /// Was the peer on the core that this thread is on, when it last sent something? Then it needs it.
    bool shares_core() const;

  private:
    /// Of one side, which alone sets them; the other side, which rings, resets them.
    struct Words {
        std::atomic<std::uint32_t> for_bytes;
        std::atomic<std::uint32_t> for_room;
        std::atomic<std::uint32_t> core;  // one more than its number; 0: it is not known
    };
    static_assert(sizeof(Words) <= cache_line);

    Words& words(int side) const;

    Fd socket_;
    std::shared_ptr<Inbox> shared_;
    Words& mine_;
    Words& theirs_;
    SocketBell for_bytes_;  // the peer's
    SocketBell for_room_;
    BasicRingReader<SocketBell> reader_;
    BasicRingWriter<SocketBell> writer_;
    bool gone_ = false;
    std::optional<std::pair<bool, bool>> rests_for_;  // bytes, room; nothing while it is awake
    bool unsent_ = false;
};

}  // namespace unisono
