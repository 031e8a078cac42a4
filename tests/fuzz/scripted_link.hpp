#pragma once

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "transport/link.hpp"

namespace unisono {

/// A peer that is nothing but bytes: they arrive in pieces of these sizes, over and over (0: not now; no
/// sizes: all at once), and so do those that it takes. When all were handed out, it is gone.
class ScriptedLink final : public Link {
  public:
    ScriptedLink(std::vector<std::byte> incoming, std::vector<std::uint8_t> pieces)
        : incoming_(std::move(incoming)), pieces_(std::move(pieces)) {
        // A wait is one however long it is, and who waits for long goes to sleep.
        const auto both_wait = [](auto one, auto next) { return one == 0 && next == 0; };
        pieces_.erase(std::unique(pieces_.begin(), pieces_.end(), both_wait), pieces_.end());
        if (pieces_ == std::vector<std::uint8_t>{0}) pieces_.clear();
    }

    std::size_t try_send(std::span<const Bytes> parts) override {
        std::size_t all = 0;
        for (const auto& part : parts) {
            all += part.size();
            for (const auto each : part)
                sum_ += static_cast<unsigned>(each);  // so that a sanitizer sees it read
        }
        const auto taken = piece(all, sends_);
        unsent_ = taken < all;
        return taken;
    }

    Bytes peek(std::size_t limit) override {
        require_more(limit);
        return Bytes(incoming_).subspan(handed_out_, piece(std::min(limit, left()), peeks_));
    }

    void consume(std::size_t count) override { handed_out_ += count; }

    std::size_t try_receive(std::span<std::byte> into) override {
        require_more(into.size());
        const auto count = piece(std::min(into.size(), left()), receives_);
        if (count > 0) std::memcpy(into.data(), incoming_.data() + handed_out_, count);
        handed_out_ += count;
        return count;
    }

    void watch(std::vector<pollfd>&) const override {}
    bool unsent() const override { return unsent_; }
    void sever() override {}

  private:
    std::size_t left() const { return incoming_.size() - handed_out_; }

    void require_more(std::size_t wanted) const {
        if (wanted > 0 && left() == 0) throw PeerLost("it hung up");
    }

    /// Each verb has its own turn in the pieces: otherwise one of them could meet nothing but zeros.
    std::size_t piece(std::size_t most, std::size_t& turn) const {
        return pieces_.empty() ? most : std::min<std::size_t>(most, pieces_[turn++ % pieces_.size()]);
    }

    std::vector<std::byte> incoming_;
    std::vector<std::uint8_t> pieces_;
    std::size_t sends_ = 0, peeks_ = 0, receives_ = 0;
    std::size_t handed_out_ = 0;
    std::size_t sum_ = 0;
    bool unsent_ = false;
};

}  // namespace unisono
