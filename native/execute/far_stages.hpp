#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace unisono {

/// Which instructions write to stages whose readers share no cache with this core, as far as earlier calls
/// could tell. A hint: two instructions may have one place here, and ranks move from core to core.
class FarStages {
  public:
    /// Then it is time to try again.
    static constexpr std::uint64_t calls = 32;

    bool contain(std::uint64_t instruction, std::uint64_t call) const {
        return call < until_[place(instruction)];
    }
    void add(std::uint64_t instruction, std::uint64_t call) { until_[place(instruction)] = call + calls; }

  private:
    static constexpr std::size_t places = 256;
    static std::size_t place(std::uint64_t instruction) {
        return instruction * 0x9E3779B97F4A7C15 >> 32 & (places - 1);
    }

    std::array<std::uint64_t, places> until_{};
};

}  // namespace unisono
