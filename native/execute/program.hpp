#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "execute/rounds.hpp"
#include "execute/windows.hpp"

namespace unisono {

enum class Kind : std::int32_t { send, receive, local, fold };
enum class How : std::int32_t { copy, reduce_before, reduce_after };
enum class Area : std::int32_t { in, out, slot, shelf };

/// Where a block lies: the caller's input or output, or a scratch slot. Nowhere is area -1.
struct Home {
    std::int32_t area;
    std::int32_t number;

    bool exists() const { return area >= 0; }
    bool operator==(const Home&) const = default;
};

/// One row of a lowered program; the layout is that of interpret/lower.py.
struct Instruction {
    Kind kind;
    std::int32_t peer;
    How how;
    std::int32_t message;
    std::int32_t block;
    Home target;
    Home source;
    Home operand;  // of a fold: the first of Program::operands_of, and how many
};
static_assert(sizeof(Instruction) == 11 * sizeof(std::int32_t));

/// What one rank does, for blocks of any size. Checked when made, so that running it needs no checks.
class Program {
  public:
    Program(int rank, int ranks, int blocks, std::vector<std::int32_t> slots,
            std::vector<Instruction> instructions, std::vector<Home> operands,
            std::vector<std::int32_t> waits_for, std::vector<std::int32_t> waits_from, Rounds rounds = {});

    /// A peer, and the sends to it and receives from it, in order.
    struct Traffic {
        int peer;
        std::vector<std::int32_t> sends;
        std::vector<std::int32_t> receives;
    };

    int blocks() const { return blocks_; }
    std::span<const std::int32_t> slots() const { return slots_; }
    std::span<const Instruction> instructions() const { return instructions_; }
    std::span<const std::int32_t> waits_of(std::int32_t instruction) const;
    std::span<const Home> operands_of(const Instruction& fold) const;
    std::span<const Traffic> traffic() const { return traffic_; }
    std::span<const std::int32_t> locals() const { return locals_; }
    int messages() const { return messages_; }
    /// Never falls from one instruction to the next.
    std::int32_t round_of(std::int32_t instruction) const {
        return rounds_.of[static_cast<std::size_t>(instruction)];
    }
    const Rounds& rounds() const { return rounds_; }

    /// Is the slot only a window on a block, which a fold empties while it is filled?
    bool is_window(std::size_t slot) const { return windows_.fold_of_slot[slot] >= 0; }
    /// The fold that empties the window that this instruction fills; -1 if it fills none.
    std::int32_t fold_behind(std::int32_t instruction) const {
        return windows_.fold_behind[static_cast<std::size_t>(instruction)];
    }

  private:
    void check(int rank, int ranks) const;
    void check_home(std::size_t row, Home home) const;
    void number_messages();
    void sort_by_peer();

    int blocks_;
    int messages_ = 0;
    std::vector<std::int32_t> slots_;
    std::vector<Instruction> instructions_;
    std::vector<Home> operands_;
    std::vector<std::int32_t> waits_for_;
    std::vector<std::int32_t> waits_from_;
    Rounds rounds_;
    std::vector<Traffic> traffic_;
    std::vector<std::int32_t> locals_;
    Windows windows_;
};

}  // namespace unisono
