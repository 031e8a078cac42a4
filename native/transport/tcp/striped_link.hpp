#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transport/tcp/tcp_link.hpp"

namespace unisono {

/// One ordered stream of bytes over several connections, with nothing added to it: byte number i travels on
/// connection i / stripe % connections. A message within a stripe is one send on one connection; a long one
/// keeps all of them busy, because what one has no turn for yet waits in the system's buffers.
class StripedLink final : public Link {
  public:
    /// Large enough that a stripe is worth a system call and that small messages are rarely cut; small enough
    /// that a block of the executor spans several.
    static constexpr std::size_t usual_stripe = 64 * 1024;

    /// Both ends have the sockets in the same order, and the same stripe.
    explicit StripedLink(std::vector<Fd> sockets, std::size_t stripe = usual_stripe);

    std::size_t try_send(std::span<const Bytes> parts) override;
    Bytes peek(std::size_t limit) override;
    void consume(std::size_t count) override;
    std::size_t try_receive(std::span<std::byte> into) override;
    /// Only the connections whose turn it is: the others cannot take the link forward. A peer that dies
    /// closes all of them.
    void watch(std::vector<pollfd>& sockets) const override;
    void sever() override;
    bool unsent() const override;
    bool leaves_host() const override { return streams_.front()->leaves_host(); }

  private:
    /// Where the next byte travels.
    struct Turn {
        std::size_t stream = 0;
        std::size_t left;  // bytes up to the end of the stripe
    };

    void advance(Turn& turn, std::size_t count) const;
    /// Parts that end within the stripe.
    std::size_t send(std::span<const Bytes> parts);
    std::size_t send_in_stripes(std::span<const Bytes> parts, std::size_t offered);
    /// What the attempt returns. The first reason for a loss is the one that every later one repeats.
    template <class Attempt>
    auto noticing_loss(Attempt attempt);

    std::vector<std::unique_ptr<TcpLink>> streams_;
    std::size_t stripe_;
    Turn out_;
    Turn in_;
    bool unsent_ = false;
    std::string lost_;
};

/// The link over these sockets: striped if there are several.
std::unique_ptr<Link> link_over(std::vector<Fd> sockets);

}  // namespace unisono
