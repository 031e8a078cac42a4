#pragma once

#include <cstdlib>
#include <iostream>
#include <source_location>

/// Unlike assert, checks in every build type.
inline void expect(bool condition, const char* claim,
                   std::source_location where = std::source_location::current()) {
    if (condition) return;
    std::cerr << where.file_name() << ':' << where.line() << ": expected " << claim << std::endl;
    std::exit(EXIT_FAILURE);
}
