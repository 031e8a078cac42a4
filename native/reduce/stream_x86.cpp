#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "reduce/stream.hpp"

namespace unisono {

namespace {

constexpr std::size_t line = 64;

}  // namespace

void stream(std::byte* to, const std::byte* from, std::size_t bytes) {
    const std::size_t to_a_line = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
    if (bytes < line + to_a_line) {
        std::memcpy(to, from, bytes);
        return;
    }
    std::memcpy(to, from, to_a_line);
    std::size_t done = to_a_line;
    for (; done + line <= bytes; done += line)
        for (std::size_t i = 0; i < line; i += sizeof(__m128i))
            _mm_stream_si128(reinterpret_cast<__m128i*>(to + done + i),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done + i)));
    std::memcpy(to + done, from + done, bytes - done);
    _mm_sfence();  // these stores are not ordered before later ones otherwise
}

}  // namespace unisono
