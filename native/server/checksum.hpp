#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace unisono::server {

/// CRC-32C (Castagnoli), which finds every burst of up to 32 bits. `before` is that of what came before.
std::uint32_t checksum(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace unisono::server
