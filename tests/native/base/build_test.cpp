#include "base/build.hpp"

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "expect.hpp"

namespace {

/// What the kernel says that the processor can do; empty where it lists no x86 flags.
std::set<std::string> kernel_cpu_flags() {
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
        if (!line.starts_with("flags")) continue;
        std::istringstream words(line.substr(line.find(':') + 1));
        return {std::istream_iterator<std::string>(words), {}};
    }
    return {};
}

void test_build_info_names_what_it_was_built_from(const std::string& version) {
    const auto info = unisono::build_info();
    expect(info.version == version, "the version of the project");
    expect(info.cxx_standard == 20, "C++20");
    expect(info.compiler.find(' ') != std::string::npos, "a compiler's name and version");
    expect(!info.architecture.empty(), "an architecture");
}

void test_vector_instructions_agree_with_the_kernel() {
    const auto flags = kernel_cpu_flags();
    if (flags.empty()) return;
    const auto found = unisono::build_info().vector_instructions;
    const std::set<std::string> ours(found.begin(), found.end());
    const auto agree = [&](const char* name, const char* flag) {
        expect(ours.contains(name) == flags.contains(flag), name);
    };
    agree("sse4.2", "sse4_2");
    agree("f16c", "f16c");
    agree("avx2", "avx2");
    agree("avx512f", "avx512f");
    agree("avx512bf16", "avx512_bf16");
}

}  // namespace

int main(int argc, char** argv) {
    expect(argc == 2, "the version as the only argument");
    test_build_info_names_what_it_was_built_from(argv[1]);
    test_vector_instructions_agree_with_the_kernel();
}
