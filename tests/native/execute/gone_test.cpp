#include "execute/gone.hpp"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/error.hpp"
#include "expect.hpp"
#include "transport/tcp/tcp_link.hpp"

using namespace unisono;

namespace {

std::pair<Fd, Fd> connected() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) throw_errno("socketpair");
    return {Fd(ends[0]), Fd(ends[1])};
}

void test_who_closed_its_connection_has_left_and_what_it_sent_is_still_there() {
    auto [own, theirs] = connected();
    std::vector<CountedLink> links;
    links.emplace_back(nullptr);
    links.emplace_back(std::make_unique<TcpLink>(std::move(own)));
    expect(look_for_gone({}, links).left.empty(), "it is connected");

    expect(::send(theirs.number(), "word", 4, 0) == 4, "sent");
    expect(look_for_gone({}, links).left.empty(), "it has something to say");

    theirs = Fd();
    expect(look_for_gone({}, links).left == std::vector{1}, "it has hung up");
    expect(links[1].peek(4).size() == 4, "nothing was read");
}

void test_whose_process_has_ended_is_not_only_stopped() {
    const pid_t process = ::fork();
    if (process == 0)
        for (;;) ::pause();
    Host host;
    host.lives.push_back({3, Fd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0))), nullptr});
    ::kill(process, SIGSTOP);
    ::waitpid(process, nullptr, WUNTRACED);
    const auto stopped = look_for_gone(host, {});
    ::kill(process, SIGKILL);
    ::waitpid(process, nullptr, 0);
    expect(stopped.ended.empty(), "stopped");
    expect(look_for_gone(host, {}).ended == std::vector{3}, "ended");
}

void test_who_closed_its_communicator_has_left() {
    const auto inbox = std::make_shared<Inbox>(Inbox::create({2, 4096}));
    Host host;
    host.lives.push_back({1, Fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))), inbox});
    expect(look_for_gone(host, {}).left.empty(), "it is there");
    inbox->board().left.store(1);
    expect(look_for_gone(host, {}).left == std::vector{1}, "it has left");
}

}  // namespace

int main() {
    test_who_closed_its_connection_has_left_and_what_it_sent_is_still_there();
    test_whose_process_has_ended_is_not_only_stopped();
    test_who_closed_its_communicator_has_left();
}
