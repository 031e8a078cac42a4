// What a forked child has of its parent's descriptors, links, queues and memory: nothing that disturbs it.

#include "base/fork.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "execute/executor.hpp"
#include "execute/queue.hpp"
#include "expect.hpp"
#include "transport/shm/ring_link.hpp"

namespace {

using unisono::CallQueue;
using unisono::Executor;
using unisono::Fd;
using unisono::ForkedChild;
using unisono::Inbox;
using unisono::RingLink;

constexpr std::size_t ring_bytes = 4096;

/// Runs the function in a forked child, which has ten seconds; fails here if it fails there.
template <class Function>
void in_a_child(Function function) {
    const pid_t child = ::fork();
    expect(child >= 0, "another process");
    if (child == 0) {
        ::alarm(10);
        function();
        ::_exit(EXIT_SUCCESS);
    }
    int status = -1;
    expect(::waitpid(child, &status, 0) == child && status == 0, "the child to find all of it right");
}

template <class Function>
void expect_refusal(Function function) {
    try {
        function();
    } catch (const ForkedChild&) {
        return;
    }
    expect(false, "a refusal");
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

Fd any_descriptor() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

void a_child_has_no_descriptor_of_ours_and_all_of_the_others() {
    Fd one = any_descriptor();
    const Fd other = std::move(one);
    const Fd high(::fcntl(other.number(), F_DUPFD_CLOEXEC, 700));
    const int foreign = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    const std::array numbers{other.number(), high.number()};
    in_a_child([&] {
        expect(!is_open(numbers[0]) && !is_open(numbers[1]), "descriptors to be closed");
        expect(is_open(foreign), "the descriptor of somebody else to be open");
        expect(!other.valid() && other.number() == -1, "an owner to know that it has none");
    });
    expect(is_open(numbers[0]) && is_open(numbers[1]) && other.valid(), "the parent to have its own");
    ::close(foreign);
}

void what_was_closed_before_the_fork_is_not_closed_in_the_child_under_its_new_name() {
    const int number = any_descriptor().number();
    expect(::open("/dev/null", O_RDONLY | O_CLOEXEC) == number, "the number to be used again");
    in_a_child([&] { expect(is_open(number), "somebody else's descriptor to be open"); });
    ::close(number);
}

void an_owner_that_ends_in_the_child_leaves_the_childs_own_descriptors_open() {
    std::optional<Fd> before = any_descriptor();
    const int number = before->number();
    in_a_child([&] {
        const Fd own = any_descriptor();
        expect(own.number() == number, "the number to be used again");
        before.reset();
        expect(is_open(number) && own.valid(), "the child's own descriptor to be open");
        in_a_child([&] { expect(!is_open(number) && !own.valid(), "a grandchild to have none"); });
        expect(own.valid(), "the child to have it still");
    });
}

void a_connection_ends_with_the_parent_though_a_child_lives() {
    std::array<int, 2> ends{};
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "a pair of sockets");
    std::optional<Fd> here(ends[0]);
    std::array<int, 2> hold{};
    expect(::pipe2(hold.data(), O_CLOEXEC) == 0, "a pipe");
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(hold[1]);
        char byte;
        ::_exit(::read(hold[0], &byte, 1) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    here.reset();
    pollfd end{ends[1], POLLIN, 0};  // the child closes its own before anything else, but it may be late
    char byte;
    expect(::poll(&end, 1, 10'000) == 1 && ::recv(ends[1], &byte, 1, 0) == 0, "the end of the connection");
    for (const int number : {hold[0], hold[1], ends[1]}) ::close(number);
    int status = -1;
    expect(::waitpid(child, &status, 0) == child && status == 0, "the child to live until it was told");
}

void a_link_that_ends_in_the_child_goes_on_in_the_parent() {
    const auto mine = std::make_shared<Inbox>(Inbox::create({2, ring_bytes}));
    const auto theirs = std::make_shared<Inbox>(Inbox::create({2, ring_bytes}));
    auto link = std::make_unique<RingLink>(mine, 0, theirs, 1);
    RingLink peer(theirs, 1, mine, 0);
    in_a_child([&] { link.reset(); });
    const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
    const std::array<unisono::Bytes, 1> parts{sent};
    expect(link->try_send(parts) == 3 && peer.peek(3).size() == 3, "bytes from here to there");
    expect(peer.try_send(parts) == 3 && link->peek(3).size() == 3, "bytes from there to here");
}

void an_executor_that_ends_in_the_child_has_not_left_for_the_others() {
    const auto inbox = std::make_shared<Inbox>(Inbox::create({1, ring_bytes}));
    std::vector<std::unique_ptr<unisono::Link>> none(1);
    auto executor = std::make_unique<Executor>(0, std::move(none), unisono::Host{.own = inbox});
    in_a_child([&] {
        executor->leave();
        executor.reset();
    });
    expect(inbox->board().left.load() == 0, "the rank to be there");
    executor.reset();
    expect(inbox->board().left.load() == 1, "the rank to have left");
}

void shared_memory_stays_readable_and_is_neither_given_out_nor_taken_back() {
    constexpr std::size_t size = std::size_t{1} << 20;
    const auto inbox = std::make_shared<Inbox>(Inbox::create({1, ring_bytes, 0, 2 * size}));
    std::byte* const array = inbox->heap().allocate(size);
    array[0] = std::byte{7};
    in_a_child([&] {
        expect(array[0] == std::byte{7}, "the array to be readable");
        inbox->heap().free(array);
        expect_refusal([&] { inbox->heap().allocate(size); });
    });
    expect(array[0] == std::byte{7}, "the array to be what it was");
    expect(inbox->heap().allocate(size) != array, "the array to be in use");
}

void a_queue_with_calls_under_way_neither_hangs_in_the_child_nor_stops_in_the_parent() {
    auto queue = std::make_unique<CallQueue>();
    std::promise<void> go;
    std::atomic<bool> runs = false;
    auto ticket = queue->start([&, ready = go.get_future().share()](bool) {
        runs = true;
        ready.wait();
    });
    while (!runs) std::this_thread::yield();
    const auto later = queue->start([](bool) {});
    std::thread waits([&] { later->wait([] { return true; }); });
    in_a_child([&] {
        expect(!queue->busy() && !ticket->done(), "a queue that does nothing here");
        expect_refusal([&] { ticket->wait([] { return true; }); });
        expect_refusal([&] { ticket->notify(any_descriptor()); });
        expect_refusal([&] { queue->start([](bool) {}); });
        expect_refusal([&] { queue->run_or_start([](bool) {}); });
        queue.reset();
        ticket.reset();
    });
    go.set_value();
    expect(ticket->wait([] { return true; }), "the call to go on");
    waits.join();
}

}  // namespace

int main() {
    a_child_has_no_descriptor_of_ours_and_all_of_the_others();
    what_was_closed_before_the_fork_is_not_closed_in_the_child_under_its_new_name();
    an_owner_that_ends_in_the_child_leaves_the_childs_own_descriptors_open();
    a_connection_ends_with_the_parent_though_a_child_lives();
    a_link_that_ends_in_the_child_goes_on_in_the_parent();
    an_executor_that_ends_in_the_child_has_not_left_for_the_others();
    shared_memory_stays_readable_and_is_neither_given_out_nor_taken_back();
    a_queue_with_calls_under_way_neither_hangs_in_the_child_nor_stops_in_the_parent();
}
