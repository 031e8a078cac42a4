#pragma once

#include <cstdlib>
#include <iostream>

/// Aborts, so that a fuzzer keeps the input. tests/native/expect.hpp needs a newer clang than Debian's.
inline void demand(bool condition, const char* claim) {
    if (condition) return;
    std::cerr << "expected " << claim << std::endl;
    std::abort();
}
