#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

/// What the fuzzer decides: numbers from the front of its bytes, and zeros when these are through.
class Script {
  public:
    explicit Script(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

    template <class Number>
    Number number() {
        Number result{};
        const auto taken = std::min(sizeof(Number), bytes_.size());
        std::memcpy(&result, bytes_.data(), taken);
        bytes_ = bytes_.subspan(taken);
        return result;
    }

    std::size_t below(std::size_t count) { return number<std::uint8_t>() % count; }

    /// Mostly one of -1 … count, where the borders of what is allowed are; now and then anything.
    std::int32_t near(std::int32_t count) {
        const auto choice = number<std::uint8_t>();
        if (choice >= 0xf0) return number<std::int32_t>();
        return choice % (std::clamp(count, 0, 64) + 2) - 1;
    }

    std::vector<std::byte> bytes(std::size_t count) {
        std::vector<std::byte> result(count);
        for (auto& each : result) each = number<std::byte>();
        return result;
    }

    std::vector<std::byte> rest() { return bytes(bytes_.size()); }

  private:
    std::span<const std::uint8_t> bytes_;
};
