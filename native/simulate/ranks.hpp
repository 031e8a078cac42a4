#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace unisono::simulate {

constexpr double never = std::numeric_limits<double>::infinity();

/// The messages of one round, a row each. A row from a rank to itself is a local reduction: it has only
/// `into`.
struct Messages {
    std::span<const std::int32_t> source;
    std::span<const std::int32_t> target;
    std::span<const double> nbytes;
    std::span<const double> start;  // seconds before its bytes move
    std::span<const double> out;    // seconds of the sender's port
    std::span<const double> into;   // seconds of the receiver's port, with the reduction
    std::span<const double> plain;  // seconds of the busier port, without the reduction

    std::size_t size() const { return source.size(); }
    double alone(std::size_t m) const { return out[m] > into[m] ? out[m] : into[m]; }
};

/// A message that somebody wants to see.
struct Flight {
    std::int64_t round;
    std::int32_t source;
    std::int32_t target;
    double nbytes;
    double alone;  // seconds that its bytes would need with nobody in their way
    double ready;
    double began;
    double ended;
};

/// Keeps the messages of some ranks, as many as there is room for.
class Album {
  public:
    Album(std::vector<std::uint8_t> shown, std::size_t room) : shown_(std::move(shown)), room_(room) {}

    bool is_open() const { return flights_.size() < room_; }
    void add(const Flight& flight) {
        if (is_open() && (shown_[static_cast<std::size_t>(flight.source)] ||
                          shown_[static_cast<std::size_t>(flight.target)]))
            flights_.push_back(flight);
    }
    std::span<const Flight> flights() const { return flights_; }

  private:
    std::vector<std::uint8_t> shown_;
    std::size_t room_;
    std::vector<Flight> flights_;
};

/// What is known of every rank: when it can begin its next round, what its time went into, where it is stuck.
struct Ranks {
    explicit Ranks(std::size_t count)
        : begin(count),
          alpha(count),
          beta(count),
          gamma(count),
          last_round(count, -1),
          waits_for(count, -1),
          stuck_since(count) {}

    std::size_t size() const { return begin.size(); }

    /// The message that a rank waited for longest has ended, and its round with it.
    void account(std::size_t rank, const Messages& messages, std::size_t m, double times) {
        alpha[rank] += times * messages.start[m];
        beta[rank] += times * messages.plain[m];
        gamma[rank] += times * (messages.alone(m) - messages.plain[m]);
    }

    void stall(std::size_t rank, std::int64_t round, std::int32_t peer, double since) {
        if (last_round[rank] >= 0) return;
        last_round[rank] = round;
        waits_for[rank] = peer;
        stuck_since[rank] = since;
    }

    std::vector<double> begin;  // `never` for who is stuck
    std::vector<double> alpha;
    std::vector<double> beta;
    std::vector<double> gamma;
    std::vector<std::int64_t> last_round;
    std::vector<std::int32_t> waits_for;
    std::vector<double> stuck_since;
};

}  // namespace unisono::simulate
