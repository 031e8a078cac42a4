#include "server/checksum.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace unisono::server {

namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

/// Eight bytes at a time: tables[k] has the remainder of a byte that k zero bytes follow.
constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t rest = byte;
        for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82f63b78u : 0);
        tables[0][byte] = rest;
    }
    for (std::size_t k = 1; k < 8; ++k)
        for (std::size_t byte = 0; byte < 256; ++byte)
            tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 0xff];
    return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t before) {
    static_assert(std::endian::native == std::endian::little);
    std::uint32_t rest = ~before;
    const std::byte* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; at += 8, left -= 8) {
        std::uint64_t word;
        std::memcpy(&word, at, 8);
        word ^= rest;
        rest = 0;
        for (std::size_t k = 0; k < 8; ++k) rest ^= tables[7 - k][word >> (8 * k) & 0xff];
    }
    for (; left > 0; ++at, --left)
        rest = rest >> 8 ^ tables[0][(rest ^ std::to_integer<std::uint32_t>(*at)) & 0xff];
    return ~rest;
}

}  // namespace unisono::server
