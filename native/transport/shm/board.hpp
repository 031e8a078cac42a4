#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/shm/bell.hpp"

namespace unisono {

/// Where a rank's array is, as another process has to know it: at an address of the rank's, in the heap that
/// it shares, or nowhere but in its stage.
class Whereabouts {
  public:
    enum class Kind : std::uint64_t { address = 0, heap = 1, stage = 2 };

    static Whereabouts address(const void* pointer) {
        return Whereabouts(Kind::address, reinterpret_cast<std::uint64_t>(pointer));
    }
    static Whereabouts heap(std::size_t offset) { return Whereabouts(Kind::heap, offset); }
    static Whereabouts stage() { return Whereabouts(Kind::stage, 0); }

    explicit Whereabouts(std::uint64_t bits) : bits_(bits) {}
    std::uint64_t bits() const { return bits_; }
    Kind kind() const { return static_cast<Kind>(bits_ >> shift); }
    std::uint64_t value() const { return bits_ & ((std::uint64_t{1} << shift) - 1); }

  private:
    static constexpr int shift = 62;
    Whereabouts(Kind kind, std::uint64_t value) : bits_(static_cast<std::uint64_t>(kind) << shift | value) {}
    std::uint64_t bits_;
};

/// What a rank tells the others about one call, on one cache line. Everything but `progress` is written
/// before the first store to `progress` in that call, which releases it.
struct alignas(64) Line {
    std::atomic<std::uint64_t> progress{0};  // call and step, see `Moment`
    std::atomic<std::uint64_t> fingerprint{0};
    std::atomic<std::uint64_t> in{0};
    std::atomic<std::uint64_t> out{0};
    std::array<std::byte, 32> stage{};  // instead of the large one, if it suffices
};
static_assert(sizeof(Line) == 64);

/// A call's number and a step in it, as one number that only grows. Calls count from 1.
struct Moment {
    static constexpr int step_bits = 20;
    static constexpr std::uint64_t most_steps = (std::uint64_t{1} << step_bits) - 1;

    static constexpr std::uint64_t of(std::uint64_t call, std::uint64_t step) {
        return call << step_bits | step;
    }
    static constexpr std::uint64_t call(std::uint64_t moment) { return moment >> step_bits; }
};

/// Some of the first 64 ranks, a bit for each.
struct Ranks {
    static constexpr std::uint64_t of(int rank) { return rank < 64 ? std::uint64_t{1} << rank : 0; }
};

/// What a rank did in a call whose way was on trial, in nanoseconds of the clock that all processes have.
struct Work {
    std::atomic<std::uint64_t> call{0};
    std::atomic<std::uint64_t> began{0};
    std::atomic<std::uint64_t> ended{0};
    std::atomic<std::uint64_t> waited{0};
};

/// A rank's notices to the other ranks of its host; it alone writes here, except for the bell. Calls use the
/// two lines, and the two stages, in turn: who enters a call makes sure that everybody else has entered the
/// one before, so nobody still uses what the call before that left.
struct Board {
    std::array<Line, 2> lines;
    alignas(64) Bell bell;                 // rings when progress is made
    std::atomic<std::uint64_t> failed{0};  // the call that did, or the next one: there will be no more
    std::atomic<std::uint32_t> left{0};    // in order: there will be no more calls
    std::atomic<std::int32_t> core{-1};    // where it ran when it last began to wait; a hint
    // What it waits for, on a line of its own: hints for the ranks of its core alone, whose cache that is.
    alignas(64) std::atomic<std::uint64_t> awaited_moment{0};  // 0: it does not wait
    std::atomic<std::uint64_t> awaited_ranks{0};
    // Of a call until the fourth one after it. Who enters a call knows that all others have entered the one
    // before, so that they have told what they did in those before that.
    alignas(64) std::array<Work, 4> works{};
    // The arrays of these ranks, see WriteWindow. It changes while others look at `failed`.
    alignas(64) std::atomic<std::uint64_t> writing_to{0};

    Line& line(std::uint64_t call) { return lines[call % 2]; }
    Work& work(std::uint64_t call) { return works[call % works.size()]; }
};

}  // namespace unisono
