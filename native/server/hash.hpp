#pragma once

#include <cstdint>

namespace unisono::server {

/// Every bit of the result depends on every bit of the number (splitmix64's finaliser).
constexpr std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/// The shard of a key: a jump consistent hash (Lamping, Veach 2014). One shard more takes its share from all
/// others, and nothing else moves.
constexpr std::uint32_t shard_of(std::int64_t key, std::uint32_t shards) {
    std::uint64_t state = mixed(static_cast<std::uint64_t>(key));
    std::int64_t bucket = -1, next = 0;
    while (next < shards) {
        bucket = next;
        state = state * 2862933555777941757u + 1;
        next = static_cast<std::int64_t>(
            static_cast<double>(bucket + 1) *
            (static_cast<double>(std::int64_t{1} << 31) / static_cast<double>((state >> 33) + 1)));
    }
    return static_cast<std::uint32_t>(bucket);
}

}  // namespace unisono::server
