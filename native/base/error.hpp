#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace unisono {

/// A call ended because of other ranks. Whoever knows which ranks, and why, says so.
struct CallFailed : std::runtime_error {
    explicit CallFailed(const std::string& text) : std::runtime_error(text), reason(text) {}
    CallFailed(const std::string& text, std::vector<int> about, std::string why)
        : std::runtime_error(text), ranks(std::move(about)), reason(std::move(why)) {}

    std::vector<int> ranks;  // that it is about
    std::string reason;
    bool second_hand = false;               // another rank has given up before, and knows more
    std::optional<std::uint64_t> sequence;  // the call in which it began, if that was an earlier one
    std::int32_t round = 0;                 // of the call, from 1; 0 if it is not known
    std::int32_t rounds = 0;                // so many has it
};

/// A peer died or can no longer be reached.
struct PeerLost : CallFailed {
    using CallFailed::CallFailed;

    /// As `rank` sees it.
    static PeerLost of(int rank, int peer, const std::string& reason) {
        return {"rank " + std::to_string(rank) + " lost rank " + std::to_string(peer) + ": " + reason,
                {peer},
                reason};
    }

    /// The peer left a call that it did not finish: it has its own reason for that.
    static PeerLost given_up(int rank, int peer) {
        auto lost = of(rank, peer, "it has given up a call");
        lost.second_hand = true;
        return lost;
    }
};

/// An operation did not complete in the time that it was given.
struct DeadlineExceeded : CallFailed {
    using CallFailed::CallFailed;
};

/// The peers are in another call, or in the same one with other arguments.
struct Mismatch : CallFailed {
    using CallFailed::CallFailed;

    /// Where two ranks differ in a call of them alone: which message of theirs, that way, it is about.
    std::optional<std::uint64_t> message;
};

/// Something was used in a forked child of the process to which it belongs.
struct ForkedChild : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The operating system said no; the message has its reason.
struct SystemError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// `what` failed, for the reason that errno has.
[[noreturn]] void throw_errno(const std::string& what);

}  // namespace unisono
