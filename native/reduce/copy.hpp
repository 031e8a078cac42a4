#pragma once

#include <cstddef>

namespace unisono {

/// As std::memcpy, whose instruction of choice (`rep movsb`) takes twenty times as long on some processors if
/// the memory lies 1 to 31 bytes ahead of what is copied, modulo the size of a page: as arrays of NumPy's do
/// from memory that begins with a page.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

/// Copies past the caches: for bytes that nobody reads before they would have left them anyway. The memory
/// that is written to need not be read first. Done when it returns, for who sees a later store.
void stream(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace unisono
