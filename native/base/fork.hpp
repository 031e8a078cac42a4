#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace unisono {

/// What fork(2) does to us. A child gets copies of our objects, but not the threads that work on them, and
/// what they share with other processes is still shared. So what was made before the fork is dead in the
/// child: its descriptors are closed at once, it tells the other ranks nothing, and it takes no lock, because
/// the thread that holds it may not exist there. What the child makes itself is its own.
namespace fork_state {

/// Forks that lie between the process that loaded us and this one.
inline std::atomic<std::uint32_t> generation{0};

/// From here on, until it is disowned, a child closes this descriptor.
void own(int descriptor);
/// Before it is closed: afterwards, somebody else may be given the same number.
void disown(int descriptor);

}  // namespace fork_state

/// The process in which an object was made.
class Origin {
  public:
    /// False in a forked child of it. Relaxed: the number changes while there is one thread.
    bool is_here() const { return generation_ == fork_state::generation.load(std::memory_order_relaxed); }

    /// ForkedChild, which says what belongs to another process, if this is a child of it.
    void require(std::string_view what) const;

  private:
    std::uint32_t generation_ = fork_state::generation.load(std::memory_order_relaxed);
};

}  // namespace unisono
