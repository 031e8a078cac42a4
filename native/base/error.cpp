#include "base/error.hpp"

#include <cerrno>
#include <cstring>

namespace unisono {

void throw_errno(const std::string& what) { throw SystemError(what + ": " + std::strerror(errno)); }

}  // namespace unisono
