#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace unisono::server {

/// Which of some keys are the same.
class Repeats {
  public:
    /// True if any is there twice.
    bool find(std::span<const std::int64_t> keys);
    /// The place where the key at this place is for the first time.
    std::size_t first(std::size_t place) const { return first_[place]; }

  private:
    std::vector<std::uint32_t> slots_;  // one more than a place; 0: free
    std::vector<std::uint32_t> first_;
};

}  // namespace unisono::server
