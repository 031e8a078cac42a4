#pragma once

#include <cstddef>

namespace unisono {

/// Copies past the caches: for bytes that nobody reads before they would have left them anyway. The memory
/// that is written to need not be read first. Done when it returns, for who sees a later store.
void stream(std::byte* to, const std::byte* from, std::size_t bytes);

}  // namespace unisono
