#pragma once

#include <stdexcept>
#include <string>

namespace unisono {

/// A peer died or can no longer be reached.
struct PeerLost : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// An operation did not complete in the time that it was given.
struct DeadlineExceeded : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Something was used in a forked child of the process to which it belongs.
struct ForkedChild : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The operating system said no; the message has its reason.
struct SystemError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// `what` failed, for the reason that errno has.
[[noreturn]] void throw_errno(const std::string& what);

}  // namespace unisono
