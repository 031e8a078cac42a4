#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

namespace unisono {

/// Counts on. One thread at a time does, while others may look: that needs no locked instruction.
inline void add(std::atomic<std::uint64_t>& counter, std::uint64_t more) {
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

/// What went between this rank and the others, without headers. Others may look while a call goes on.
struct Counters {
    explicit Counters(std::size_t ranks) : sent(ranks), received(ranks) {}

    std::atomic<std::uint64_t> calls = 0;
    std::atomic<std::uint64_t> instructions = 0;       // of programs, once for each window of a vector
    std::vector<std::atomic<std::uint64_t>> sent;      // bytes to each peer
    std::vector<std::atomic<std::uint64_t>> received;  // bytes from each peer
};

/// What a run counts: instructions, and the bytes without headers between this rank and each other one.
struct Traffic {
    std::atomic<std::uint64_t>& instructions;
    std::span<std::atomic<std::uint64_t>> sent;
    std::span<std::atomic<std::uint64_t>> received;
};

}  // namespace unisono
