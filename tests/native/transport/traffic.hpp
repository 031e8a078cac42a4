#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "expect.hpp"
#include "transport/link.hpp"
#include "transport/wait.hpp"

using Buffer = std::vector<std::byte>;
using Random = std::mt19937;

inline std::size_t at_most(Random& random, std::size_t most) {
    return std::uniform_int_distribution<std::size_t>(0, most)(random);
}

inline Buffer random_bytes(std::size_t size, std::uint32_t seed) {
    Random random(seed);
    Buffer bytes(size);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random() >> 24);
    return bytes;
}

/// Repeats `step`, which returns how far it got, until `done`; that takes no longer than anything here may.
template <class Done, class Step>
void repeat_until(unisono::Link& link, Done done, Step step) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const std::array<const unisono::Link*, 1> links{&link};
    unisono::Waiter waiter(links, unisono::Patience::with_more_ranks_than_cores());
    while (!done()) {
        expect(std::chrono::steady_clock::now() < deadline, "progress within 30 s");
        if (step() > 0)
            waiter.reset();
        else
            waiter.pause();
    }
}

template <class Done>
void wait_until(unisono::Link& link, Done done) {
    repeat_until(link, done, [] { return 0; });
}

/// Sends everything, cut at random into calls of up to three parts, of which some are empty.
class Sender {
  public:
    Sender(unisono::Link& link, unisono::Bytes bytes, std::uint32_t seed)
        : link_(link), left_(bytes), random_(seed) {}

    bool done() const { return left_.empty(); }

    /// One attempt; returns how much was sent.
    std::size_t step() {
        if (done()) return 0;
        std::array<unisono::Bytes, 3> parts;
        auto rest = left_;
        for (auto& part : parts) {
            const std::size_t longest = random_() % 2 == 0 ? 40 : 100'000;
            part = rest.first(random_() % 4 == 0 ? 0 : at_most(random_, std::min(rest.size(), longest)));
            rest = rest.subspan(part.size());
        }
        const std::size_t offered = left_.size() - rest.size();
        const std::size_t sent = link_.try_send(parts);
        expect(sent <= offered, "no more sent than offered");
        expect(link_.unsent() == (sent < offered), "unsent to say whether something is left over");
        left_ = left_.subspan(sent);
        return sent;
    }

  private:
    unisono::Link& link_;
    unisono::Bytes left_;
    Random random_;
};

/// Receives a known number of bytes, by both ways, in random sizes.
class Receiver {
  public:
    Receiver(unisono::Link& link, std::size_t size, std::uint32_t seed)
        : link_(link), bytes_(size), random_(seed) {}

    bool done() const { return have_ == bytes_.size(); }

    /// One attempt; returns how much was received.
    std::size_t step() {
        const auto rest = std::span(bytes_).subspan(have_);
        const std::size_t most = random_() % 2 == 0 ? 40 : 100'000;
        const std::size_t limit = at_most(random_, std::min(most, rest.size()));
        const std::size_t count =
            random_() % 2 == 0 ? link_.try_receive(rest.first(limit)) : take(rest, limit);
        have_ += count;
        return count;
    }

    const Buffer& bytes() const { return bytes_; }

  private:
    std::size_t take(std::span<std::byte> into, std::size_t limit) {
        const auto shown = link_.peek(limit);
        expect(shown.size() <= limit, "no more shown than asked for");
        const auto taken = shown.first(at_most(random_, shown.size()));
        std::ranges::copy(taken, into.begin());
        link_.consume(taken.size());
        return taken.size();
    }

    unisono::Link& link_;
    Buffer bytes_;
    std::size_t have_ = 0;
    Random random_;
};

inline void send_all(unisono::Link& link, unisono::Bytes bytes, std::uint32_t seed = 1) {
    Sender sender(link, bytes, seed);
    repeat_until(link, [&] { return sender.done(); }, [&] { return sender.step(); });
}

inline Buffer receive_all(unisono::Link& link, std::size_t size, std::uint32_t seed = 2) {
    Receiver receiver(link, size, seed);
    repeat_until(link, [&] { return receiver.done(); }, [&] { return receiver.step(); });
    return receiver.bytes();
}

inline void exchange(unisono::Link& link, unisono::Bytes out, Buffer& in, std::uint32_t seed) {
    Sender sender(link, out, seed);
    Receiver receiver(link, in.size(), seed + 1);
    const auto done = [&] { return sender.done() && receiver.done(); };
    repeat_until(link, done, [&] { return sender.step() + receiver.step(); });
    in = receiver.bytes();
}

/// What the PeerLost says that the attempt ends with.
template <class Attempt>
std::string reason_of_loss(unisono::Link& link, Attempt attempt) {
    std::string reason;
    wait_until(link, [&] {
        try {
            attempt();
            return false;
        } catch (const unisono::PeerLost& lost) {
            reason = lost.what();
            return true;
        }
    });
    return reason;
}
