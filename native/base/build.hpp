#pragma once

#include <string>
#include <vector>

namespace unisono {

/// What this library was built from, and what it found to run on.
struct BuildInfo {
    std::string version;
    std::string compiler;
    int cxx_standard;
    std::string architecture;
    std::vector<std::string> vector_instructions;
};

BuildInfo build_info();

}  // namespace unisono
