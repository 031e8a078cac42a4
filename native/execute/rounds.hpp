#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "execute/check.hpp"

namespace unisono {

/// The rounds of the schedule that the instructions of a program come from, counted from 0.
struct Rounds {
    std::vector<std::int32_t> of{};  // one for each instruction; none: everything is in one round
    std::int32_t count = 1;          // of the whole schedule

    /// For messages about a program that is through.
    std::int32_t last() const { return std::max(count - 1, 0); }
};

/// The rounds of so many instructions; std::invalid_argument if they cannot be that.
inline Rounds fitting(Rounds rounds, std::size_t instructions) {
    if (rounds.of.empty()) rounds.of.resize(instructions);
    if (rounds.of.size() != instructions) throw std::invalid_argument("rounds do not fit the instructions");
    for (std::size_t row = 0; row < instructions; ++row)
        require(rounds.of[row] >= 0 && rounds.of[row] <= rounds.last(), row, "no such round");
    return rounds;
}

}  // namespace unisono
