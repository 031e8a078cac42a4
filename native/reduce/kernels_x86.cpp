#include <immintrin.h>

#include "reduce/kernels.hpp"

namespace unisono {
namespace {

// flatten: everything that the body calls becomes part of `run`, and is compiled for its target. The
// alternative, target_clones, dispatches by ifunc, whose resolvers run before the sanitizers are ready, and
// is not for templates.

/// Eight, by the F16C instructions, which the compiler does not use by itself.
struct HalfOctet {
    using Element = Half;
    using Values = Lanes<float, 8>;

    [[gnu::target("avx,f16c")]] static Values get(const std::byte* from, std::size_t index) {
        Values values;
        const auto halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + index);
        _mm256_storeu_ps(values.lane, _mm256_cvtph_ps(halves));
        return values;
    }
    [[gnu::target("avx,f16c")]] static void put(std::byte* to, std::size_t index, const Values& values) {
        const auto halves = _mm256_cvtps_ph(_mm256_loadu_ps(values.lane), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to) + index, halves);
    }
};

struct Avx2 {
    template <class T>
    using Pack = std::conditional_t<std::same_as<T, Half>, HalfOctet, AnyCpu::Pack<T>>;

    template <class Body>
    [[gnu::target("avx2,f16c"), gnu::flatten]] static void run(Body body) {
        body();
    }
    static bool supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c"); }
};

struct Avx512 : Avx2 {
    template <class Body>
    [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,f16c"), gnu::flatten]] static void run(Body body) {
        body();
    }
    static bool supported() {
        return Avx2::supported() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    }
};

}  // namespace

std::vector<Kernels> supported_kernels() {
    std::vector<Kernels> found;
    if (Avx512::supported()) found.push_back(kernels_for<Avx512>);
    if (Avx2::supported()) found.push_back(kernels_for<Avx2>);
    found.push_back(kernels_for<AnyCpu>);
    return found;
}

}  // namespace unisono
