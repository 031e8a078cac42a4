/// Ranks that share memory, as threads of one process with the same mappings, so that the sanitizers see all
/// of it.

#include "execute/shared_run.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "execute/executor.hpp"
#include "expect.hpp"

using namespace unisono;

namespace {

Caller nobody;

constexpr int ranks = 3;
constexpr std::size_t elements_of_block = 5003;  // some pieces, and a part of one
constexpr std::size_t block_bytes = elements_of_block * sizeof(float);
constexpr std::size_t stage_bytes = 64 * 1024;

/// Every rank's input and output in every block; a rank's own block is in nobody's stage.
std::vector<SharedPlace> places() {
    std::vector<SharedPlace> result;
    for (int rank = 0; rank < ranks; ++rank)
        for (const auto area : {Area::in, Area::out})
            for (int block = 0; block < ranks; ++block) {
                const int among_shared =
                    (block < rank ? block : block - 1) + (area == Area::out ? ranks - 1 : 0);
                result.push_back({rank, static_cast<int>(area), block, block == rank ? -1 : among_shared});
            }
    return result;
}

int place(int rank, Area area, int block) { return (2 * rank + (area == Area::out ? 1 : 0)) * ranks + block; }

/// Every rank adds up its block of all ranks, and hands the sum to all of them.
SharedProgram direct_allreduce(int rank) {
    std::vector<SharedInstruction> rows;
    std::vector<std::int32_t> references;
    const auto everybody_else = [&](auto action) {
        for (int other = 0; other < ranks; ++other)
            if (other != rank) action(other);
    };
    const auto always = static_cast<std::int32_t>(When::always);
    everybody_else(
        [&](int block) { rows.push_back({SharedKind::publish, place(rank, Area::in, block), block, 0, 0}); });
    rows.push_back({SharedKind::signal, 1, always, 0, 0});
    everybody_else([&](int peer) { rows.push_back({SharedKind::wait, peer, 1, always, 0}); });
    for (const auto area : {Area::in, Area::out})
        for (int owner = 0; owner < ranks; ++owner) references.push_back(place(owner, area, rank));
    rows.push_back({SharedKind::combine, rank, 0, ranks, ranks});
    rows.push_back({SharedKind::signal, 2, always, 0, 0});
    everybody_else([&](int peer) { rows.push_back({SharedKind::wait, peer, 2, always, 0}); });
    everybody_else([&](int block) {
        const auto output = place(rank, Area::out, block);
        rows.push_back({SharedKind::fetch, output, block, output, 0});
    });
    std::vector<std::int32_t> rounds;
    for (const auto& row : rows)
        rounds.push_back(row.kind == SharedKind::combine || (!rounds.empty() && rounds.back() == 1) ? 1 : 0);
    return SharedProgram(rank, ranks, ranks, 2, places(), rows, references, {rounds, 2});
}

SharedPlan plan(int rank, bool may_stage, std::uint64_t fingerprint = 1, std::uint64_t stage_turns = 1) {
    const std::uint64_t window = may_stage ? stage_bytes / stage_turns / (2 * (ranks - 1)) : 4096;
    SharedPlan result{.program = std::make_shared<SharedProgram>(direct_allreduce(rank)),
                      .sizes = std::vector<std::uint64_t>(ranks, block_bytes),
                      .offsets = {},
                      .staged = {},
                      .window = window,
                      .windows = (block_bytes + window - 1) / window,
                      .stage_step = stage_bytes / stage_turns,
                      .stage_turns = stage_turns,
                      .tiny = false,
                      .may_stage = may_stage,
                      .arithmetic = {Dtype::f32, Op::sum},
                      .fingerprint = fingerprint};
    for (const auto& each : places()) {
        result.offsets.push_back(static_cast<std::uint64_t>(each.number) * block_bytes);
        result.staged.push_back(each.entry < 0 ? 0 : static_cast<std::uint64_t>(each.entry) * window);
    }
    result.check(stage_bytes);
    return result;
}

Fd own_process() { return Fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))); }

std::vector<std::unique_ptr<Executor>> connected() {
    std::vector<std::shared_ptr<Inbox>> inboxes;
    for (int rank = 0; rank < ranks; ++rank)
        inboxes.push_back(std::make_shared<Inbox>(Inbox::create({ranks, 64, stage_bytes, 1 << 20})));
    std::vector<std::unique_ptr<Executor>> result;
    for (int rank = 0; rank < ranks; ++rank) {
        Host host{.own = inboxes[static_cast<std::size_t>(rank)], .more_ranks_than_cores = true};
        host.neighbours.own = host.own;
        for (int peer = 0; peer < ranks; ++peer) {
            const auto& inbox = inboxes[static_cast<std::size_t>(peer)];
            host.neighbours.ranks.push_back({inbox, ::getpid()});
            if (peer != rank) host.lives.push_back({peer, own_process(), inbox});
        }
        result.push_back(
            std::make_unique<Executor>(rank, std::vector<std::unique_ptr<Link>>(ranks), std::move(host)));
    }
    return result;
}

enum class Memory { direct, staged, lent };

/// A vector for one rank, where the mode says.
class Vector {
  public:
    Vector(Executor& executor, Memory memory) : heap_(executor.neighbours().own->heap()) {
        if (memory == Memory::lent)
            values_ = {reinterpret_cast<float*>(heap_.allocate(ranks * block_bytes)),
                       ranks * elements_of_block};
        else
            values_ = (private_ = std::vector<float>(ranks * elements_of_block));
    }
    ~Vector() {
        if (private_.empty()) heap_.free(reinterpret_cast<std::byte*>(values_.data()));
    }
    Vector(const Vector&) = delete;
    Vector& operator=(const Vector&) = delete;

    std::span<float> values() { return values_; }
    Array array() { return {reinterpret_cast<std::byte*>(values_.data()), values_.size_bytes()}; }

  private:
    Heap& heap_;
    std::vector<float> private_;
    std::span<float> values_;
};

Clock::time_point in_half_a_minute() { return Clock::now() + std::chrono::seconds(30); }

/// Ranks in step try all ways together; out of step, each goes a way of its own.
enum class Ways { one, tried_in_step, tried_out_of_step };

std::shared_ptr<Trials> trials_of(int rank, Ways ways) {
    if (ways == Ways::one) return nullptr;
    auto result = std::make_shared<Trials>(true, 1, 2);
    for (int call = 0; ways == Ways::tried_out_of_step && call < 4 * rank; ++call) result->next(0);
    return result;
}

void sums_arrive_everywhere(Memory memory, std::uint64_t stage_turns = 1, Ways ways = Ways::one) {
    const int calls = ways == Ways::one ? 5 : 100;
    auto executors = connected();
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
            auto& executor = *executors[static_cast<std::size_t>(rank)];
            Vector vector(executor, memory);
            auto prepared = plan(rank, memory == Memory::staged, 1, stage_turns);
            prepared.trials = trials_of(rank, ways);
            for (int call = 0; call < calls; ++call) {
                const auto values = vector.values();
                std::iota(values.begin(), values.end(), static_cast<float>(rank + call));
                executor.run(prepared, {vector.array(), vector.array(), in_half_a_minute()}, nobody);
                for (std::size_t i = 0; i < values.size(); ++i)
                    expect(values[i] == static_cast<float>(3 * i + 3 + 3 * static_cast<std::size_t>(call)),
                           "the sum of all ranks");
            }
        });
    threads.clear();
    for (const auto& executor : executors) {
        const auto& sent = executor->counters().sent;
        const auto& received = executor->counters().received;
        const auto handed_out = static_cast<std::uint64_t>(calls) * 2 * block_bytes;
        expect(executor->counters().calls == static_cast<std::uint64_t>(calls), "all calls counted");
        expect(std::accumulate(sent.begin(), sent.end(), std::uint64_t{0}) == handed_out,
               "p - 1 blocks handed out in each call");
        expect(std::accumulate(received.begin(), received.end(), std::uint64_t{0}) == handed_out,
               "p - 1 blocks fetched in each call");
    }
}

template <class Error>
std::string failure(Executor& executor, const SharedPlan& prepared, Clock::time_point deadline) {
    Vector vector(executor, Memory::direct);
    try {
        executor.run(prepared, {vector.array(), vector.array(), deadline}, nobody);
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing failed";
}

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// The others judge by it whether the core that they wait on is the one that is needed.
void who_waits_tells_where_it_runs() {
    auto executors = connected();
    const auto& core = executors[0]->neighbours().own->board().core;
    expect(core == -1, "nothing told before it waits");
    failure<DeadlineExceeded>(*executors[0], plan(0, false), Clock::now() + std::chrono::milliseconds(50));
    expect(core >= 0, "the core that it waits on");
}

/// While it does, and no longer: who has got all that it waits for needs the core.
void who_waits_tells_what_for() {
    auto executors = connected();
    const auto& board = executors[0]->neighbours().own->board();
    std::atomic<bool> told = false;
    {
        const std::jthread look([&](const std::stop_token& over) {
            while (!told && !over.stop_requested())
                told = board.awaited_moment != 0 && (board.awaited_ranks & Ranks::of(1)) != 0;
        });
        failure<DeadlineExceeded>(*executors[0], plan(0, false),
                                  Clock::now() + std::chrono::milliseconds(200));
    }
    expect(told, "rank 1, and a moment");
    expect(board.awaited_moment == 0, "nothing when it has left the call");
}

void waits_for_one_step_go_together_until_the_next_signal() {
    const auto wait = [](std::int32_t peer, std::int32_t step) {
        return SharedInstruction{SharedKind::wait, peer, step, 0, 0};
    };
    const SharedInstruction first{SharedKind::signal, 1, 0, 0, 0}, second{SharedKind::signal, 2, 0, 0, 0};
    const SharedProgram program(0, 4, 0, 2, {},
                                {first, wait(1, 1), wait(2, 1), wait(3, 2), second, wait(3, 2)}, {});
    expect(program.together(1) == (Ranks::of(1) | Ranks::of(2)), "both");
    expect(program.together(2) == Ranks::of(2), "the second one");
    expect(program.together(3) == Ranks::of(3) && program.together(5) == Ranks::of(3), "others apart");
    expect(!program.waits_for_one(), "four waits");
    expect(SharedProgram(0, 4, 0, 1, {}, {first, wait(2, 1)}, {}).waits_for_one(), "one wait");
}

void a_missing_rank_is_a_deadline() {
    auto executors = connected();
    const auto text = failure<DeadlineExceeded>(*executors[0], plan(0, false),
                                                Clock::now() + std::chrono::milliseconds(50));
    expect(says(text, "rank 1 in call 0"), "who is awaited, and in which call");
    const auto later = failure<PeerLost>(*executors[0], plan(0, false), in_half_a_minute());
    expect(says(later, "an earlier call failed"), "no further calls");
}

void other_arguments_are_a_mismatch_and_a_failure_reaches_everybody() {
    auto executors = connected();
    std::vector<std::string> texts(ranks);
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; ++rank)
            threads.emplace_back([&, rank] {
                const auto prepared = plan(rank, false, rank == 0 ? 1 : 2);
                texts[static_cast<std::size_t>(rank)] = failure<std::runtime_error>(
                    *executors[static_cast<std::size_t>(rank)], prepared, in_half_a_minute());
            });
    }
    expect(says(texts[0], "different arguments"), "rank 0 to see that the others differ");
    for (const auto& text : texts)
        expect(says(text, "different arguments") || says(text, "it has given up a call"),
               "a failure on every rank");
}

/// In which rank 0 signals before it waits, if it does, for the others.
SharedPlan meeting(int rank, bool waits) {
    std::vector<SharedInstruction> rows{{SharedKind::signal, 1, 0, 0, 0}};
    for (int peer = 0; waits && peer < ranks; ++peer)
        if ((peer == 0) != (rank == 0)) rows.push_back({SharedKind::wait, peer, 1, 0, 0});
    SharedPlan result = plan(rank, false);
    result.program = std::make_shared<SharedProgram>(rank, ranks, 0, 1, std::vector<SharedPlace>{}, rows,
                                                     std::vector<std::int32_t>{});
    result.windows = 1;
    return result;
}

/// Though what others need of it for theirs is there.
void a_call_that_one_has_given_up_succeeds_for_nobody() {
    auto executors = connected();
    failure<DeadlineExceeded>(*executors[0], meeting(0, true), Clock::now() + std::chrono::milliseconds(50));
    expect(says(failure<PeerLost>(*executors[1], meeting(1, true), in_half_a_minute()), "has given up"),
           "who comes later to hear of it");
}

void a_call_before_one_that_was_given_up_succeeds() {
    auto executors = connected();
    const auto soon = Clock::now() + std::chrono::milliseconds(50);
    expect(failure<PeerLost>(*executors[0], meeting(0, false), soon) == "nothing failed",
           "one without waits");
    failure<DeadlineExceeded>(*executors[0], meeting(0, true), soon);
    expect(failure<PeerLost>(*executors[1], meeting(1, true), in_half_a_minute()) == "nothing failed",
           "the first one to succeed for rank 1, too");
}

/// Round 0 is until all have come; what round 1 hands out, nobody gets from the rank that drops its links.
void a_rank_that_drops_its_links_signals_no_more(std::int32_t round) {
    auto executors = connected();
    executors[1]->inject({{Action::drop, 0, round}});
    std::vector<std::string> texts(ranks);
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; ++rank)
            threads.emplace_back([&, rank] {
                auto& text = texts[static_cast<std::size_t>(rank)];
                text = failure<PeerLost>(*executors[static_cast<std::size_t>(rank)], plan(rank, true),
                                         in_half_a_minute());
            });
    }
    expect(says(texts[1], "rank 1 in call 0"), "the rank itself to say so");
    expect(says(texts[1], round == 0 ? "round 1" : round == 1 ? "round 2" : "at its end"), "where");
    const auto sent = [&](std::size_t to) { return executors[1]->counters().sent[to].load(); };
    expect((sent(0) > 0) == (round > 1) && (sent(2) > 0) == (round > 1),
           "nothing handed out before its round");
    for (const std::size_t other : {0, 2})
        expect(says(texts[other], "it has given up a call") ||
                   (round > 1 && says(texts[other], "nothing failed")),
               "the others to fail, unless they had all that they need");
}

void programs_that_leave_their_memory_are_refused() {
    const int slot = static_cast<int>(Area::slot), in = static_cast<int>(Area::in),
              out = static_cast<int>(Area::out);
    const auto refused = [](int steps, SharedInstruction row, std::vector<SharedPlace> known) {
        try {
            SharedProgram(0, ranks, 2, steps, std::move(known), {row}, {0, 1});
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    const SharedInstruction combine{SharedKind::combine, 1, 0, 1, 1},
        publish{SharedKind::publish, 0, 1, 0, 0}, signal{SharedKind::signal, 2, 0, 0, 0};
    expect(!refused(1, combine, {{0, in, 1, 0}, {0, slot, 0, 1}}), "a right program to be accepted");
    expect(refused(1, combine, {{0, in, 0, 0}, {0, slot, 0, 1}}), "a place of another block to be refused");
    expect(!refused(1, publish, {{0, in, 1, 0}, {0, in, 1, 0}}), "a right publish to be accepted");
    expect(refused(1, publish, {{0, out, 1, 0}, {0, in, 1, 0}}), "publishing an output to be refused");
    expect(!refused(2, signal, {{0, in, 1, 0}, {0, in, 1, 0}}), "a step of the program to be accepted");
    expect(refused(1, signal, {{0, in, 1, 0}, {0, in, 1, 0}}), "a step beyond the program's to be refused");
    expect(refused(-1, combine, {{0, in, 1, 0}, {0, slot, 0, 1}}), "less than no steps to be refused");
}

void a_block_that_ends_beyond_the_stage_is_refused() {
    auto tight = plan(0, true);
    tight.staged[static_cast<std::size_t>(place(0, Area::out, 2))] = stage_bytes - tight.window + 4;
    try {
        tight.check(stage_bytes);
    } catch (const std::invalid_argument&) {
        return;
    }
    expect(false, "a stage that is too small to be refused");
}

void rounds_that_no_program_has_are_refused() {
    const SharedInstruction signal{SharedKind::signal, 1, 0, 0, 0};
    const auto refused = [&](Rounds rounds) {
        try {
            SharedProgram(0, ranks, 1, 1, {}, {signal}, {}, std::move(rounds));
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    expect(!refused({{1}, 2}) && !refused({}), "right rounds to be accepted");
    expect(refused({{2}, 2}) && refused({{-1}, 2}) && refused({{0, 0}, 2}), "others to be refused");
}

}  // namespace

int main() {
    for (const auto memory : {Memory::direct, Memory::staged, Memory::lent}) sums_arrive_everywhere(memory);
    for (const std::uint64_t stage_turns : {2, 4, 16}) sums_arrive_everywhere(Memory::staged, stage_turns);
    for (const auto ways : {Ways::tried_in_step, Ways::tried_out_of_step})
        sums_arrive_everywhere(Memory::staged, 1, ways);
    who_waits_tells_where_it_runs();
    who_waits_tells_what_for();
    waits_for_one_step_go_together_until_the_next_signal();
    a_missing_rank_is_a_deadline();
    other_arguments_are_a_mismatch_and_a_failure_reaches_everybody();
    a_call_that_one_has_given_up_succeeds_for_nobody();
    a_call_before_one_that_was_given_up_succeeds();
    for (const auto round : {0, 1, 5}) a_rank_that_drops_its_links_signals_no_more(round);
    rounds_that_no_program_has_are_refused();
    programs_that_leave_their_memory_are_refused();
    a_block_that_ends_beyond_the_stage_is_refused();
}
