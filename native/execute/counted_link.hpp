#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "transport/link.hpp"

namespace unisono {

/// A link that counts its bytes: when a call was given up in the middle of a message, the counts of both ends
/// tell what is still on its way.
class CountedLink {
  public:
    explicit CountedLink(std::unique_ptr<Link> link) : link_(std::move(link)) {}

    /// Nothing for the rank itself.
    const Link* get() const { return link_.get(); }
    std::uint64_t sent() const { return sent_; }

    std::size_t try_send(std::span<const Bytes> parts) {
        const std::size_t taken = link_->try_send(parts);
        sent_ += taken;
        return taken;
    }
    Bytes peek(std::size_t limit) { return link_->peek(limit); }
    void consume(std::size_t count) {
        link_->consume(count);
        received_ += count;
    }
    std::size_t try_receive(std::span<std::byte> into) {
        const std::size_t count = link_->try_receive(into);
        received_ += count;
        return count;
    }

    /// As if the connection had broken.
    void sever() {
        if (link_) link_->sever();
    }

    /// Drops what has arrived, until `total` bytes have been received since the beginning; have they?
    bool discard_up_to(std::uint64_t total) {
        while (received_ < total) {
            const auto arrived = peek(static_cast<std::size_t>(total - received_));
            if (arrived.empty()) return false;
            consume(arrived.size());
        }
        return true;
    }

  private:
    std::unique_ptr<Link> link_;
    std::uint64_t sent_ = 0;
    std::uint64_t received_ = 0;
};

}  // namespace unisono
