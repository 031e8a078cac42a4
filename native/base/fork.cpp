#include "base/fork.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <string>
#include <system_error>

#include "base/error.hpp"

namespace unisono {

namespace {

using Word = std::uint64_t;
constexpr int bits = 64;

/// Linux lets a process have so many descriptors unless it was told otherwise (fs.nr_open), and gives out the
/// lowest free number. What lies above is closed by exec only.
constexpr int most_descriptors = 1 << 20;

/// A bit for each descriptor that an Fd owns. Fixed storage without a lock: the handler runs in a child whose
/// other threads vanished in the middle of whatever they did, where it may only do what a signal handler may.
/// Untouched, it takes no memory. (A list under a lock that the fork waits for would not miss a descriptor
/// that another thread is just about to own or to close; but then a fork inside of a signal handler hangs.)
constinit std::array<std::atomic<Word>, most_descriptors / bits> owned{};
constinit std::atomic<int> words_used{0};

constinit std::atomic<pid_t> process{0};
constinit std::atomic<pid_t> parent{0};

static_assert(std::atomic<Word>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

std::atomic<Word>& word_of(int descriptor) { return owned[static_cast<std::size_t>(descriptor / bits)]; }

Word bit_of(int descriptor) { return Word{1} << (descriptor % bits); }

void close_all() {
    const int words = words_used.load();
    for (int i = 0; i < words; ++i)
        for (Word left = owned[static_cast<std::size_t>(i)].exchange(0); left != 0; left &= left - 1)
            ::close(i * bits + std::countr_zero(left));
}

void become_a_child() {
    const int before = errno;
    close_all();
    parent.store(process.load());
    process.store(::getpid());
    fork_state::generation.fetch_add(1, std::memory_order_relaxed);
    errno = before;
}

[[maybe_unused]] const bool installed = [] {
    process.store(::getpid());
    if (const int error = ::pthread_atfork(nullptr, nullptr, &become_a_child); error != 0)
        throw std::system_error(error, std::generic_category(), "pthread_atfork");
    return true;
}();

}  // namespace

void fork_state::own(int descriptor) {
    if (descriptor < 0 || descriptor >= most_descriptors) return;
    const int needed = descriptor / bits + 1;
    for (int used = words_used.load(); used < needed && !words_used.compare_exchange_weak(used, needed);) {
    }
    word_of(descriptor).fetch_or(bit_of(descriptor));
}

void fork_state::disown(int descriptor) {
    if (descriptor < 0 || descriptor >= most_descriptors) return;
    word_of(descriptor).fetch_and(~bit_of(descriptor));
}

void Origin::require(std::string_view what) const {
    if (is_here()) return;
    throw ForkedChild("this process was forked from process " + std::to_string(parent.load()) + ": " +
                      std::string(what) +
                      " belongs to the process that made it; use it there, and make another one here");
}

}  // namespace unisono
