#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "execute/counted_link.hpp"

namespace unisono {

enum class Action : std::int32_t { kill, stall, delay, drop };

/// A failure that somebody wants to rehearse: what a rank does to itself, in which call and round of it.
struct Injection {
    Action action;
    std::uint64_t call;
    std::int32_t round;
    std::chrono::nanoseconds pause{0};  // of a delay; of a stall, if it is to end
};

/// What is injected into one call.
class Rehearsal {
  public:
    using Links = std::span<CountedLink>;

    /// Nothing.
    Rehearsal() = default;
    /// `due` is sorted by round.
    Rehearsal(int rank, std::uint64_t call, std::vector<Injection> due, Links links)
        : rank_(rank), call_(call), due_(std::move(due)), links_(links) {}

    bool is_over() const { return next_ == due_.size(); }
    /// Only if it is not over.
    std::int32_t next_round() const { return due_[next_].round; }

    /// The rank begins with an instruction of this round, and does to itself what is due by now. PeerLost if
    /// that is the loss of its links.
    void reach(std::int32_t round);
    /// The rank has no more to do in this call, and does the rest to itself.
    void end();

  private:
    void act(const Injection& injection, const std::string& where) const;
    [[noreturn]] void drop_links(const std::string& where) const;

    int rank_ = 0;
    std::uint64_t call_ = 0;
    std::vector<Injection> due_;
    Links links_;
    std::size_t next_ = 0;
};

/// All that is injected into the calls of one rank.
class Injections {
  public:
    Injections() = default;
    explicit Injections(std::vector<Injection> each) : each_(std::move(each)) {}

    /// What is injected into a call. It is handed over, so it happens once.
    Rehearsal into(std::uint64_t call, int rank, Rehearsal::Links links) {
        return each_.empty() ? Rehearsal() : take(call, rank, links);
    }

  private:
    Rehearsal take(std::uint64_t call, int rank, Rehearsal::Links links);

    std::vector<Injection> each_;
};

}  // namespace unisono
