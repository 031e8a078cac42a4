#include "transport/tcp/striped_link.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <stdexcept>
#include <utility>

#include "base/error.hpp"

namespace unisono {

namespace {

/// Of more parts than this, a stripe gets the first ones.
constexpr std::size_t most_parts = 64;

/// Hands out parts piece by piece.
class Cutter {
  public:
    explicit Cutter(std::span<const Bytes> parts) : parts_(parts) {}

    /// The next bytes, no more than `limit`, as parts that are valid until the next call.
    std::span<const Bytes> next(std::size_t limit) {
        std::size_t count = 0;
        while (limit > 0 && count < most_parts && !parts_.empty()) {
            const Bytes rest = parts_.front().subspan(used_);
            const Bytes piece = rest.first(std::min(rest.size(), limit));
            if (!piece.empty()) pieces_[count++] = piece;
            limit -= piece.size();
            used_ += piece.size();
            if (piece.size() < rest.size()) continue;
            parts_ = parts_.subspan(1);
            used_ = 0;
        }
        return std::span(pieces_).first(count);
    }

  private:
    std::span<const Bytes> parts_;
    std::size_t used_ = 0;  // bytes of the first part
    std::array<Bytes, most_parts> pieces_;
};

std::size_t bytes_of(std::span<const Bytes> parts) {
    std::size_t total = 0;
    for (const Bytes part : parts) total += part.size();
    return total;
}

}  // namespace

StripedLink::StripedLink(std::vector<Fd> sockets, std::size_t stripe)
    : stripe_(stripe), out_{.left = stripe}, in_{.left = stripe} {
    if (sockets.empty() || stripe == 0) throw std::invalid_argument("a link needs a socket and a stripe");
    for (auto& socket : sockets) streams_.push_back(std::make_unique<TcpLink>(std::move(socket)));
}

template <class Attempt>
auto StripedLink::noticing_loss(Attempt attempt) {
    try {
        return attempt();
    } catch (const PeerLost& lost) {
        if (lost_.empty()) lost_ = lost.what();
        throw PeerLost(lost_);
    }
}

std::size_t StripedLink::try_send(std::span<const Bytes> parts) {
    const std::size_t offered = bytes_of(parts);
    unsent_ = offered > 0;
    if (!unsent_) return 0;
    if (!lost_.empty()) throw PeerLost(lost_);
    const std::size_t sent = offered <= out_.left ? send(parts) : send_in_stripes(parts, offered);
    unsent_ = sent < offered;
    return sent;
}

Bytes StripedLink::peek(std::size_t limit) {
    return noticing_loss([&] { return streams_[in_.stream]->peek(std::min(limit, in_.left)); });
}

void StripedLink::consume(std::size_t count) {
    streams_[in_.stream]->consume(count);
    advance(in_, count);
}

std::size_t StripedLink::try_receive(std::span<std::byte> into) {
    std::size_t have = 0;
    try {
        while (have < into.size()) {
            const auto part = into.subspan(have, std::min(in_.left, into.size() - have));
            const std::size_t count = noticing_loss([&] { return streams_[in_.stream]->try_receive(part); });
            advance(in_, count);
            have += count;
            if (count < part.size()) break;
        }
    } catch (const PeerLost&) {
        if (have == 0) throw;  // else the next call finds the same reason
    }
    return have;
}

void StripedLink::watch(std::vector<pollfd>& sockets) const {
    sockets.push_back({streams_[in_.stream]->descriptor(), POLLIN, 0});
    if (unsent_) sockets.push_back({streams_[out_.stream]->descriptor(), POLLOUT, 0});
}

void StripedLink::sever() {
    for (auto& stream : streams_) stream->sever();
}

bool StripedLink::unsent() const { return unsent_; }

void StripedLink::advance(Turn& turn, std::size_t count) const {
    assert(count <= turn.left);
    turn.left -= count;
    if (turn.left == 0) turn = {(turn.stream + 1) % streams_.size(), stripe_};
}

std::size_t StripedLink::send(std::span<const Bytes> parts) {
    const std::size_t sent = noticing_loss([&] { return streams_[out_.stream]->try_send(parts); });
    advance(out_, sent);
    return sent;
}

std::size_t StripedLink::send_in_stripes(std::span<const Bytes> parts, std::size_t offered) {
    // At most a stripe for each stream: a peer that keeps up must not hold a sender that has other peers.
    const std::size_t most = std::min(offered, streams_.size() * stripe_);
    Cutter cutter(parts);
    std::size_t sent = 0;
    try {
        while (sent < most) {
            const auto pieces = cutter.next(std::min(out_.left, most - sent));
            const std::size_t count = send(pieces);
            sent += count;
            if (count < bytes_of(pieces)) break;
        }
    } catch (const PeerLost&) {
        if (sent == 0) throw;  // else the next call finds the same reason
    }
    return sent;
}

std::unique_ptr<Link> link_over(std::vector<Fd> sockets) {
    if (sockets.size() == 1) return std::make_unique<TcpLink>(std::move(sockets.front()));
    return std::make_unique<StripedLink>(std::move(sockets));
}

}  // namespace unisono
