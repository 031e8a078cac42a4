// Segments and the inboxes in them.

#include "transport/shm/inbox.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "expect.hpp"
#include "transport/shm/segment.hpp"

namespace {

using unisono::Fd;
using unisono::Inbox;
using unisono::Segment;

/// What the error says that the action ends with.
template <class Error, class Action>
std::string failure(Action action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Fd copy_of(int descriptor) { return Fd(::dup(descriptor)); }

Fd memory_file(unsigned flags, off_t size) {
    Fd file(::memfd_create("test", flags));
    expect(::ftruncate(file.number(), size) == 0, "a file of that size");
    return file;
}

void test_two_mappings_are_one_memory() {
    const Segment one = Segment::create(10'000);
    const Segment other = Segment::map(copy_of(one.descriptor()));
    expect(one.bytes().size() == 10'000 && other.bytes().size() == 10'000, "the size that was asked for");
    expect(other.bytes().back() == std::byte{0}, "zeroed memory");
    one.bytes().back() = std::byte{7};
    expect(other.bytes().back() == std::byte{7}, "to see what the other wrote");
}

void test_a_segment_cannot_change_its_size() {
    const Segment segment = Segment::create(10'000);
    expect(::ftruncate(segment.descriptor(), 100) < 0, "not to shrink");
    expect(::ftruncate(segment.descriptor(), 100'000) < 0, "not to grow");
}

void test_a_segment_is_not_inherited() {
    const Segment segment = Segment::create(100);
    expect((::fcntl(segment.descriptor(), F_GETFD) & FD_CLOEXEC) != 0, "a descriptor that exec closes");
}

void test_memory_that_cannot_be_had_is_an_error_now() {
    const auto create = [] { Segment::create(1 << 20); };
    std::signal(SIGXFSZ, SIG_IGN);  // Python ignores it, too
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit little{4096, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &little);
    const auto text = failure<unisono::SystemError>(create);
    ::setrlimit(RLIMIT_FSIZE, &before);
    expect(says(text, "1048576 bytes"), "how much was asked for");
    expect(says(text, std::strerror(EFBIG)), "why it was refused");
    expect(!failure<unisono::SystemError>([] { Segment::create(0); }).empty(), "no empty segment");
}

void test_what_is_not_a_whole_segment_is_not_mapped() {
    const auto map = [](Fd descriptor) {
        return failure<unisono::SystemError>([&] { Segment::map(std::move(descriptor)); });
    };
    const auto sealed = [](off_t size) {
        Fd file = memory_file(MFD_ALLOW_SEALING, size);
        expect(::fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK) == 0, "a seal");
        return file;
    };
    expect(says(map(memory_file(MFD_ALLOW_SEALING, 100)), "may shrink"), "memory that may shrink is refused");
    expect(says(map(sealed(0)), "empty"), "an empty segment is refused");
    expect(says(map(Fd(::open("/dev/null", O_RDWR))), "is it a shared segment"), "a device is refused");
    expect(says(map(Fd()), "Bad file descriptor"), "no descriptor is refused");
}

void test_an_inbox_is_what_its_owner_made() {
    const Inbox mine = Inbox::create({3, 4096});
    const Inbox theirs = Inbox::open(copy_of(mine.descriptor()));
    expect(theirs.ranks() == 3 && theirs.ring_bytes() == 4096 && theirs.pid() == ::getpid(),
           "the same header");
    for (int writer = 0; writer < 3; ++writer) {
        mine.ring(writer).bytes.back() = static_cast<std::byte>(writer + 1);
        expect(theirs.ring(writer).bytes.back() == static_cast<std::byte>(writer + 1), "rings of their own");
        expect(theirs.ring(writer).bytes.size() == 4096, "the ring's size");
    }
    expect(!failure<std::invalid_argument>([&] { theirs.ring(3); }).empty(), "no ring for rank 3");
    expect(!failure<std::invalid_argument>([&] { theirs.ring(-1); }).empty(), "no ring for rank -1");
}

void test_an_inbox_has_rings_of_powers_of_two() {
    const auto refused = [](int ranks, std::size_t ring_bytes) {
        return !failure<std::invalid_argument>([&] {
                    unisono::InboxSizes({ranks, ring_bytes}).allocated();
                }).empty();
    };
    expect(refused(2, 0) && refused(2, 32) && refused(2, 100) && refused(2, ~std::size_t{0}), "odd sizes");
    expect(refused(0, 64) && refused(-1, 64), "no ranks");
    expect(unisono::InboxSizes({2, 64}).allocated() < unisono::InboxSizes({3, 64}).allocated(),
           "more ranks to take more");
}

/// What opening says after `change` was applied to the header.
template <class Change>
std::string open_changed(Change change) {
    const Inbox inbox = Inbox::create({3, 4096});
    const Segment raw = Segment::map(copy_of(inbox.descriptor()));
    change(*reinterpret_cast<unisono::InboxHeader*>(raw.bytes().data()));
    return failure<unisono::SystemError>([&] { Inbox::open(copy_of(inbox.descriptor())); });
}

void test_what_is_not_an_inbox_is_not_opened() {
    using Header = unisono::InboxHeader;
    expect(open_changed([](Header&) {}).empty(), "an unchanged inbox to be opened");
    expect(says(open_changed([](Header& header) { ++header.magic; }), "not an inbox"),
           "the magic number checked");
    expect(says(open_changed([](Header& header) { ++header.version; }), "version 5"), "the version checked");
    const char* const lie = "not what its header says";
    expect(says(open_changed([](Header& header) { ++header.ranks; }), lie), "the ranks checked");
    expect(says(open_changed([](Header& header) { header.ranks = 0; }), lie), "no ranks refused");
    expect(says(open_changed([](Header& header) { header.ranks = ~0U; }), lie), "too many ranks refused");
    expect(says(open_changed([](Header& header) { header.ring_bytes = 8192; }), lie), "the size checked");
    expect(says(open_changed([](Header& header) { header.ring_bytes = 4097; }), lie), "an odd size refused");
    const Segment small = Segment::create(16);
    const auto text = failure<unisono::SystemError>([&] { Inbox::open(copy_of(small.descriptor())); });
    expect(says(text, "too small"), "a small segment refused");
}

}  // namespace

int main() {
    test_two_mappings_are_one_memory();
    test_a_segment_cannot_change_its_size();
    test_a_segment_is_not_inherited();
    test_memory_that_cannot_be_had_is_an_error_now();
    test_what_is_not_a_whole_segment_is_not_mapped();
    test_an_inbox_is_what_its_owner_made();
    test_an_inbox_has_rings_of_powers_of_two();
    test_what_is_not_an_inbox_is_not_opened();
}
