#pragma once

#include <poll.h>

#include <cstddef>
#include <span>
#include <vector>

namespace unisono {

class Bell;

using Bytes = std::span<const std::byte>;

/// Bytes to and from one peer, in order. Nothing here blocks: "not now" is a return value.
/// One thread at a time uses a link. A peer that is gone is a PeerLost: from try_send, once there is no room
/// or the system knows; from peek and try_receive, after everything that had arrived was handed out.
class Link {
  public:
    virtual ~Link() = default;
    Link() = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    /// Takes bytes from the parts, one after the other, as many as there is room for; returns how many.
    /// What was taken is copied: its memory may be used again.
    virtual std::size_t try_send(std::span<const Bytes> parts) = 0;

    /// Bytes that have arrived and were not consumed yet: up to `limit`, none if nothing is there.
    /// They lie in the link's own memory, until the next call. There may be more than it shows (a ring ends
    /// somewhere): who needs more than it got consumes that first, or collects with try_receive.
    virtual Bytes peek(std::size_t limit) = 0;

    /// Forgets the first `count` of the bytes that peek showed.
    virtual void consume(std::size_t count) = 0;

    /// Moves arrived bytes straight to where they belong; returns how many.
    virtual std::size_t try_receive(std::span<std::byte> into) = 0;

    /// Adds what poll(2) has to watch while this link would block, and for what; nothing if a bell rings
    /// instead.
    virtual void watch(std::vector<pollfd>& sockets) const = 0;

    /// What rings when this link has news; none if it adds something to watch.
    virtual Bell* bell() const { return nullptr; }

    /// Does it lead to another host? Then what is awaited from there takes longer than a hand-over of the
    /// core.
    virtual bool leaves_host() const { return false; }

    /// Breaks the connection, as a fault would. The peer still gets what was sent; this end is not used any
    /// more.
    virtual void sever() = 0;

    /// Did the last try_send leave something over? Then whoever waits for this link waits for room, too.
    virtual bool unsent() const = 0;
};

}  // namespace unisono
