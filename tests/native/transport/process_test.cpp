// Links between processes.

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "expect.hpp"
#include "traffic.hpp"
#include "transport/shm/ring_link.hpp"

namespace {

using unisono::Fd;
using unisono::Inbox;
using unisono::RingLink;

constexpr std::size_t ring_bytes = 64 * 1024;

union Control {
    cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

void send_descriptor(const Fd& socket, int descriptor) {
    char byte = 0;
    iovec piece{&byte, 1};
    Control control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    control.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
    expect(::sendmsg(socket.number(), &message, 0) == 1, "a descriptor to be sent");
}

Fd receive_descriptor(const Fd& socket) {
    char byte = 0;
    iovec piece{&byte, 1};
    Control control{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    expect(::recvmsg(socket.number(), &message, MSG_CMSG_CLOEXEC) == 1, "a descriptor to be received");
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(&control.header), sizeof descriptor);
    return Fd(descriptor);
}

std::unique_ptr<RingLink> connect(const Fd& socket, int me) {
    const auto mine = std::make_shared<Inbox>(Inbox::create({2, ring_bytes}));
    send_descriptor(socket, mine->descriptor());
    const auto theirs = std::make_shared<Inbox>(Inbox::open(receive_descriptor(socket)));
    return std::make_unique<RingLink>(mine, me, theirs, 1 - me);
}

/// Another process that does `work` with a link to this one.
template <class Work>
pid_t start_peer(Fd& socket, Work work) {
    int ends[2];
    expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
    const pid_t child = ::fork();
    expect(child >= 0, "another process");
    if (child == 0) {
        ::close(ends[0]);
        work(connect(Fd(ends[1]), 1));
        ::_exit(EXIT_SUCCESS);
    }
    ::close(ends[1]);
    socket = Fd(ends[0]);
    return child;
}

int exit_status(pid_t child) {
    int status = -1;
    expect(::waitpid(child, &status, 0) == child, "the process to end");
    return status;
}

void test_two_processes_exchange_ten_megabytes() {
    const auto there = random_bytes(10'000'000, 51);
    const auto back = random_bytes(10'000'000, 52);
    Fd socket;
    const pid_t child = start_peer(socket, [&](std::unique_ptr<RingLink> link) {
        Buffer in(there.size());
        exchange(*link, back, in, 5);
        expect(in == there, "what the parent sent");
    });
    auto link = connect(socket, 0);
    Buffer in(back.size());
    exchange(*link, there, in, 6);
    expect(in == back, "what the child sent");
    expect(exit_status(child) == 0, "the child to agree");
    expect(reason_of_loss(*link, [&] { link->peek(1); }) == "closed by the peer", "the end to be seen");
}

void test_a_sleeper_is_woken_by_another_process() {
    Fd socket;
    const pid_t child = start_peer(socket, [&](std::unique_ptr<RingLink> link) {
        for (int time = 0; time < 50; ++time) {
            receive_all(*link, 8);
            ::usleep(3000);  // long enough for the other side to fall asleep
            send_all(*link, random_bytes(8, 53));
        }
    });
    auto link = connect(socket, 0);
    for (int time = 0; time < 50; ++time) {
        send_all(*link, random_bytes(8, 54));
        receive_all(*link, 8);
    }
    expect(exit_status(child) == 0, "the child to get everything");
}

void test_a_killed_peer_leaves_its_last_bytes_and_no_file() {
    const auto last_words = random_bytes(1000, 55);
    Fd socket;
    const pid_t child = start_peer(socket, [&](std::unique_ptr<RingLink> link) {
        send_all(*link, last_words);
        for (;;) ::pause();
    });
    const auto mine = std::make_shared<Inbox>(Inbox::create({2, ring_bytes}));
    send_descriptor(socket, mine->descriptor());
    const auto theirs = std::make_shared<Inbox>(Inbox::open(receive_descriptor(socket)));
    RingLink link(mine, 0, theirs, 1);
    wait_until(link, [&] { return !link.peek(1000).empty(); });
    ::kill(child, SIGKILL);
    expect(WIFSIGNALED(exit_status(child)), "the child to be killed");
    expect(receive_all(link, last_words.size()) == last_words, "its last words");
    expect(link.peek(1).empty(), "silence then: who watches processes has to notice");

    struct stat status{};
    expect(::fstat(theirs->descriptor(), &status) == 0 && status.st_nlink == 0, "memory without a name");
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
        struct stat other{};
        if (::stat(entry.path().c_str(), &other) == 0)
            expect(other.st_dev != status.st_dev || other.st_ino != status.st_ino, "no file of it");
        expect(entry.path().string().find("unisono") == std::string::npos, "no file of ours");
    }
}

}  // namespace

int main() {
    test_two_processes_exchange_ten_megabytes();
    test_a_sleeper_is_woken_by_another_process();
    test_a_killed_peer_leaves_its_last_bytes_and_no_file();
}
