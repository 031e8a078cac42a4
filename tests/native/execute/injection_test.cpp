/// Failures that a rank is told to rehearse: what happens, when, and that it happens once.

#include "execute/injection.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "execute/executor.hpp"
#include "expect.hpp"
#include "transport/shm/ring_link.hpp"

using namespace unisono;

namespace {

Caller nobody;

using Nanoseconds = std::chrono::nanoseconds;

Rehearsal rehearsal(std::vector<Injection> injections, std::uint64_t call = 7) {
    return Injections(std::move(injections)).into(call, 2, {});
}

/// What a process that does this writes to stderr, and how it ends or stops. A stopped one is continued.
struct Fate {
    std::string said;
    int first = 0;
    int last = 0;
};

Fate fate_of(const std::function<void()>& action) {
    std::array<int, 2> pipe{};
    expect(::pipe(pipe.data()) == 0, "a pipe");
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);  // nothing is left if the test itself ends
        ::dup2(pipe[1], STDERR_FILENO);
        action();
        ::_exit(EXIT_SUCCESS);
    }
    ::close(pipe[1]);
    Fate fate;
    expect(::waitpid(child, &fate.first, WUNTRACED) == child, "news of the child");
    if (WIFSTOPPED(fate.first)) {
        ::kill(child, SIGCONT);
        expect(::waitpid(child, &fate.last, 0) == child, "the end of the child");
    }
    std::array<char, 256> text{};
    for (ssize_t count = 0; (count = ::read(pipe[0], text.data(), text.size())) > 0;)
        fate.said.append(text.data(), static_cast<std::size_t>(count));
    ::close(pipe[0]);
    return fate;
}

void a_kill_ends_the_process_after_a_line_that_says_so() {
    const auto fate = fate_of([] { rehearsal({{Action::kill, 7, 4}}).reach(4); });
    expect(WIFSIGNALED(fate.first) && WTERMSIG(fate.first) == SIGKILL, "SIGKILL");
    expect(fate.said == "unisono: injected kill in rank 2, call 7, round 5\n", "one line");
}

void a_stall_stops_the_process_until_somebody_continues_it() {
    const auto fate = fate_of([] { rehearsal({{Action::stall, 7, 0}}).reach(0); });
    expect(WIFSTOPPED(fate.first) && WSTOPSIG(fate.first) == SIGSTOP, "SIGSTOP");
    expect(WIFEXITED(fate.last) && WEXITSTATUS(fate.last) == EXIT_SUCCESS, "to go on");
}

void a_delay_and_a_stall_of_some_seconds_take_that_long_and_go_on() {
    for (const auto action : {Action::delay, Action::stall}) {
        const auto began = std::chrono::steady_clock::now();
        rehearsal({{action, 7, 1, std::chrono::milliseconds(30)}}).reach(1);
        expect(std::chrono::steady_clock::now() - began >= std::chrono::milliseconds(30), "30 ms");
    }
}

/// How many of these brief delays have happened, by what they write.
std::size_t lines(const std::function<void()>& action) {
    const auto fate = fate_of(action);
    expect(WIFEXITED(fate.first), "no other failure");
    return static_cast<std::size_t>(std::ranges::count(fate.said, '\n'));
}

Injection brief_delay(std::uint64_t call, std::int32_t round) {
    return {Action::delay, call, round, Nanoseconds(1)};
}

void each_happens_once_in_its_round_or_a_later_one_or_at_the_end() {
    const std::vector<Injection> injections{brief_delay(7, 9), brief_delay(7, 2), brief_delay(8, 0)};
    auto due = rehearsal(injections);
    expect(!due.is_over() && due.next_round() == 2, "the earliest round to come first");
    expect(lines([&] { due.reach(1); }) == 0, "nothing before its round");
    const auto twice = [&] {
        due.reach(3);
        due.reach(3);
    };
    expect(lines(twice) == 1, "one in a later round, once");
    const auto to_the_end = [&] {
        due.reach(3);
        due.end();
        due.end();
    };
    expect(lines(to_the_end) == 2, "the rest at the end, once");
    expect(rehearsal(injections, 6).is_over(), "nothing in another call");
}

void what_was_handed_to_a_call_is_not_handed_out_again() {
    Injections injections({brief_delay(7, 0), brief_delay(8, 0)});
    expect(!injections.into(7, 0, {}).is_over(), "one for call 7");
    expect(injections.into(7, 0, {}).is_over(), "none any more");
    expect(!injections.into(8, 0, {}).is_over(), "the other for call 8");
}

constexpr std::int32_t rounds = 4;
constexpr std::size_t block_bytes = 1000;

/// In each round a block goes each way. No block waits for another: without rounds all would go at once.
Program exchange_blocks(int rank) {
    const Home nowhere{-1, -1};
    std::vector<Instruction> rows;
    Rounds of{{}, rounds};
    for (int block = 0; block < rounds; ++block) {
        const Home in{static_cast<int>(Area::in), block}, out{static_cast<int>(Area::out), block};
        rows.push_back({Kind::send, 1 - rank, How::copy, 2 * block, block, nowhere, in, nowhere});
        rows.push_back({Kind::receive, 1 - rank, How::copy, 2 * block + 1, block, out, nowhere, nowhere});
        of.of.insert(of.of.end(), {block, block});
    }
    return Program(rank, 2, rounds, {}, rows, {}, {}, std::vector<std::int32_t>(rows.size() + 1), of);
}

struct Rank {
    std::unique_ptr<Executor> executor;
    LinkPlan plan;
    std::vector<std::byte> in = std::vector<std::byte>(rounds * block_bytes);
    std::vector<std::byte> out = in;
    std::string failure;

    void call() {
        const Request request{
            {in.data(), in.size()}, {out.data(), out.size()}, Clock::now() + std::chrono::seconds(30)};
        try {
            executor->run(plan, request, nobody);
        } catch (const PeerLost& lost) {
            failure = lost.what();
        }
    }

    std::uint64_t sent() const {
        const auto& each = executor->counters().sent;
        return std::accumulate(each.begin(), each.end(), std::uint64_t{0});
    }
};

std::array<Rank, 2> linked() {
    std::array<std::shared_ptr<Inbox>, 2> inboxes;
    for (auto& inbox : inboxes) inbox = std::make_shared<Inbox>(Inbox::create({2, 1 << 16}));
    std::vector<std::uint64_t> offsets;
    for (std::uint64_t block = 0; block < rounds; ++block) offsets.push_back(block * block_bytes);
    std::array<Rank, 2> result;
    for (int rank = 0; rank < 2; ++rank) {
        const auto me = static_cast<std::size_t>(rank);
        std::vector<std::unique_ptr<Link>> links(2);
        links[1 - me] = std::make_unique<RingLink>(inboxes[me], rank, inboxes[1 - me], 1 - rank);
        result[me].executor = std::make_unique<Executor>(rank, std::move(links),
                                                         Host{.own = nullptr, .more_ranks_than_cores = true});
        result[me].plan = {.program = std::make_shared<Program>(exchange_blocks(rank)),
                           .sizes = std::vector<std::uint64_t>(rounds, block_bytes),
                           .in_offsets = offsets,
                           .out_offsets = offsets,
                           .arithmetic = {Dtype::u8, Op::sum},
                           .fingerprint = 1,
                           .pairwise = false};
    }
    return result;
}

void call_both(std::array<Rank, 2>& ranks) {
    std::jthread other([&] { ranks[1].call(); });
    ranks[0].call();
}

/// The rank has done the rounds before, and nothing of this one.
void links_drop_before_the_first_instruction_of_their_round(std::int32_t round) {
    auto ranks = linked();
    ranks[1].executor->inject({{Action::drop, 1, round}});
    call_both(ranks);
    expect(ranks[0].failure.empty() && ranks[1].failure.empty(), "the call before to be unharmed");
    call_both(ranks);
    const auto done = static_cast<std::uint64_t>(std::min(round, rounds));
    expect(ranks[1].sent() == (rounds + done) * block_bytes, "the rounds before, and no byte more");
    const auto where = done < rounds ? ", round " + std::to_string(round + 1) : std::string(", at its end");
    expect(ranks[1].failure ==
               "rank 1 in call 1" + where + ": it broke its links, because UNISONO_INJECT asks for it",
           "the rank itself to say why");
    if (done == rounds) call_both(ranks);  // the other one had all that it needed
    expect(ranks[0].failure == "rank 0 lost rank 1: closed by the peer", "the other one to lose it");
}

void a_delay_in_the_middle_of_a_call_harms_nobody() {
    auto ranks = linked();
    std::ranges::fill(ranks[0].in, std::byte{5});
    ranks[1].executor->inject({{Action::delay, 0, 2, std::chrono::milliseconds(20)},
                               {Action::delay, 0, 1, std::chrono::milliseconds(20)}});
    const auto began = Clock::now();
    call_both(ranks);
    expect(Clock::now() - began >= std::chrono::milliseconds(40), "both delays");
    expect(ranks[0].failure.empty() && ranks[1].failure.empty() && ranks[1].out == ranks[0].in,
           "the right result");
}

}  // namespace

int main() {
    a_kill_ends_the_process_after_a_line_that_says_so();
    a_stall_stops_the_process_until_somebody_continues_it();
    a_delay_and_a_stall_of_some_seconds_take_that_long_and_go_on();
    each_happens_once_in_its_round_or_a_later_one_or_at_the_end();
    what_was_handed_to_a_call_is_not_handed_out_again();
    for (const auto round : {0, 1, 3, 4, 99}) links_drop_before_the_first_instruction_of_their_round(round);
    a_delay_in_the_middle_of_a_call_harms_nobody();
}
