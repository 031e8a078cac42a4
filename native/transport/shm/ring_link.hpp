#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "transport/link.hpp"
#include "transport/shm/inbox.hpp"
#include "transport/shm/ring.hpp"

namespace unisono {

/// A link between two ranks of one host: a ring in my inbox, which the peer writes to, and one in the peer's.
/// A peer that destroys its link is noticed here; one that is killed is not, it just falls silent.
class RingLink final : public Link {
  public:
    /// `me` and `peer` count the ranks of this host.
    RingLink(std::shared_ptr<Inbox> mine, int me, std::shared_ptr<Inbox> theirs, int peer);

    std::size_t try_send(std::span<const Bytes> parts) override;
    Bytes peek(std::size_t limit) override;
    void consume(std::size_t count) override;
    std::size_t try_receive(std::span<std::byte> into) override;
    void watch(std::vector<pollfd>& sockets) const override;
    Bell* bell() const override;
    void sever() override;
    bool unsent() const override;

  private:
    // Outlive the ends of the rings, which lie in them.
    std::shared_ptr<Inbox> mine_;
    std::shared_ptr<Inbox> theirs_;
    RingReader reader_;
    RingWriter writer_;
    bool unsent_ = false;
};

}  // namespace unisono
