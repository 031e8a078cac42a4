#include "server/repeats.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "server/hash.hpp"

namespace unisono::server {

bool Repeats::find(std::span<const std::int64_t> keys) {
    if (keys.size() >= std::size_t{1} << 31) throw std::length_error("too many keys at once");
    slots_.assign(std::bit_ceil(keys.size() * 2 + 1), 0);
    first_.resize(keys.size());
    const std::size_t mask = slots_.size() - 1;
    bool repeated = false;
    for (std::uint32_t place = 0; place < keys.size(); ++place) {
        std::size_t at = mixed(static_cast<std::uint64_t>(keys[place])) & mask;
        while (slots_[at] != 0 && keys[slots_[at] - 1] != keys[place]) at = (at + 1) & mask;
        if (slots_[at] == 0) slots_[at] = place + 1;
        first_[place] = slots_[at] - 1;
        repeated |= first_[place] != place;
    }
    return repeated;
}

}  // namespace unisono::server
