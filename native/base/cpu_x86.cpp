#include <x86intrin.h>

#include "base/cpu.hpp"

namespace unisono {

std::vector<std::string> vector_instructions() {
    std::vector<std::string> found;
    // The builtin takes literals only, hence no loop over the names.
    if (__builtin_cpu_supports("sse4.2")) found.emplace_back("sse4.2");
    if (__builtin_cpu_supports("f16c")) found.emplace_back("f16c");
    if (__builtin_cpu_supports("avx2")) found.emplace_back("avx2");
    if (__builtin_cpu_supports("avx512f")) found.emplace_back("avx512f");
    if (__builtin_cpu_supports("avx512bf16")) found.emplace_back("avx512bf16");
    return found;
}

std::uint64_t count_cycles() { return __rdtsc(); }

}  // namespace unisono
