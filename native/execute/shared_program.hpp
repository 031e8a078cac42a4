#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "execute/rounds.hpp"
#include "transport/shm/board.hpp"

namespace unisono {

/// Memory for a block: an area of some rank's. Blocks, slots and shelves are numbers; an entry is a place in
/// the rank's stage (-1: none).
struct SharedPlace {
    std::int32_t rank;
    std::int32_t area;
    std::int32_t number;
    std::int32_t entry;
};

enum class SharedKind : std::int32_t { wait, signal, combine, publish, fetch };

/// What a wait or a signal is for; see interpret/share.py.
enum class When : std::int32_t { always, input_lent, output_lent, reused };

/// One row of a program for shared memory; the layout is that of interpret/share.py.
struct SharedInstruction {
    SharedKind kind;
    std::int32_t a, b, c, d;

    int peer() const { return a; }  // wait
    std::int32_t step() const { return kind == SharedKind::wait ? b : a; }
    When when() const { return static_cast<When>(kind == SharedKind::wait ? c : b); }
    std::int32_t block() const { return kind == SharedKind::combine ? a : b; }
    std::int32_t first() const { return b; }    // combine: reference
    std::int32_t sources() const { return c; }  // combine
    std::int32_t targets() const { return d; }  // combine
    std::int32_t place() const { return a; }    // publish, fetch
    std::int32_t staged() const { return c; }   // fetch: the place that it is copied from
};
static_assert(sizeof(SharedInstruction) == 5 * sizeof(std::int32_t));
static_assert(sizeof(SharedPlace) == 4 * sizeof(std::int32_t));

/// What one rank does in memory that ranks share. Checked when made, so that running it needs no checks.
class SharedProgram {
  public:
    SharedProgram(int rank, int ranks, int blocks, int steps, std::vector<SharedPlace> places,
                  std::vector<SharedInstruction> instructions, std::vector<std::int32_t> references,
                  Rounds rounds = {});

    int blocks() const { return blocks_; }
    int steps() const { return steps_; }
    std::span<const SharedPlace> places() const { return places_; }
    std::span<const SharedInstruction> instructions() const { return instructions_; }
    std::span<const std::int32_t> references(const SharedInstruction& combine) const;
    const Rounds& rounds() const { return rounds_; }
    /// Of a wait: whom the rank waits for there, and then, for the same step, before it signals again.
    std::uint64_t together(std::size_t wait) const { return together_[wait]; }
    /// Does the rank wait for one other only, and once?
    bool waits_for_one() const { return waits_for_one_; }
    /// The ranks that are waited for in any case, and the others whose memory is used.
    std::span<const std::int32_t> awaited() const { return awaited_; }
    std::span<const std::int32_t> used() const { return used_; }
    /// Do others use the rank's own input, or output?
    bool lends_input() const { return lends_input_; }
    bool lends_output() const { return lends_output_; }

  private:
    void check(int rank, int ranks) const;
    void find_waits_together();
    bool keeps_a_result(const SharedInstruction& combine) const;

    int blocks_;
    int steps_;
    std::vector<SharedPlace> places_;
    std::vector<SharedInstruction> instructions_;
    std::vector<std::int32_t> references_;
    Rounds rounds_;
    std::vector<std::uint64_t> together_;
    bool waits_for_one_ = false;
    std::vector<std::int32_t> awaited_;
    std::vector<std::int32_t> used_;
    bool lends_input_ = false;
    bool lends_output_ = false;
};

}  // namespace unisono
