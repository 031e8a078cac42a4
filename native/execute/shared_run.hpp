#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "execute/counters.hpp"
#include "execute/gate.hpp"
#include "execute/injection.hpp"
#include "execute/request.hpp"
#include "execute/shared_plan.hpp"

namespace unisono {

/// One call on its way through shared memory: the instructions in order, once for every window of the blocks.
class SharedRun {
  public:
    SharedRun(Neighbours& neighbours, int rank, const SharedPlan& plan, const Request& request,
              Traffic traffic, Gate::Waiting waiting);

    void go(Rehearsal rehearsal = {});

    /// Of the schedule, from 0: that of the instruction that it is at.
    std::int32_t round() const;

  private:
    void enter();
    void run_window();
    void rehearse_window(Rehearsal& rehearsal);
    void judge_earlier_calls();
    std::optional<Clock::duration> taken_by(std::uint64_t call) const;
    void tell_what_it_did(Clock::time_point began) const;
    void run(const SharedInstruction& instruction);
    void combine(const SharedInstruction& combine);
    void combine_chunk(std::span<const Access> sources, std::span<const Access> targets, std::size_t offset,
                       std::size_t bytes);
    bool is_fetched_by_others(const SharedPlace& place) const;
    void publish(const SharedInstruction& publish);
    void write_to_stage(std::byte* to, const std::byte* from, std::size_t bytes) const;
    void fetch(const SharedInstruction& fetch) const;

    void require_still_there(std::span<const Access> sources) const;
    bool is_about_lent_memory(When when) const;
    bool holds(When when) const;
    void wait(const SharedInstruction& wait);
    Whereabouts whereabouts(Array array, bool lends) const;
    void add_access(std::int32_t place);
    std::byte* stage_of(int rank) const;
    std::byte* in_heap_of(int rank, std::uint64_t offset, std::size_t bytes) const;
    const std::byte* bytes_at(const Access& access, std::size_t offset, std::size_t bytes,
                              std::size_t buffer);
    void read(const Access& access, std::size_t offset, std::span<std::byte> into) const;
    template <class Attempt>
    void naming(int rank, Attempt attempt) const;
    std::byte* buffer(std::size_t number);
    void store(const Access& access, std::size_t offset, const std::byte* from, std::size_t bytes);
    std::size_t bytes_of(std::int32_t block) const;
    Inbox& inbox_of(int rank) const {
        return rank == rank_ ? *neighbours_.own : *neighbours_.ranks[index(rank)].inbox;
    }
    Board& board_of(int rank) const { return inbox_of(rank).board(); }
    std::uint64_t step_of(const SharedInstruction& instruction, std::uint64_t window) const {
        return window * static_cast<std::uint64_t>(program_.steps()) +
               static_cast<std::uint64_t>(instruction.step());
    }
    static std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

    Neighbours& neighbours_;
    int rank_;
    const SharedPlan& plan_;
    const SharedProgram& program_;
    Array in_;
    Array out_;
    Traffic traffic_;
    Gate gate_;
    bool streams_;  // results past the caches
    Trials::Turn turn_;
    Clock::duration waited_{};  // if it is timed
    bool stages_input_ = false;
    bool stages_output_ = false;
    std::uint64_t window_ = 0;
    std::size_t at_ = 0;  // an instruction
};

}  // namespace unisono
