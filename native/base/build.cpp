#include "base/build.hpp"

#include "base/cpu.hpp"

namespace unisono {

BuildInfo build_info() {
    return {
        .version = UNISONO_VERSION,
        .compiler = UNISONO_COMPILER,
        .cxx_standard = __cplusplus / 100 % 100,  // 202002L is C++20
        .architecture = UNISONO_ARCHITECTURE,
        .vector_instructions = vector_instructions(),
    };
}

}  // namespace unisono
