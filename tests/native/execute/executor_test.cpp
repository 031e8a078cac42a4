/// Executors of several ranks as threads of one process, so that the sanitizers see both ends of every link.

#include "execute/executor.hpp"

#include <cstring>
#include <numeric>
#include <thread>

#include "base/error.hpp"
#include "expect.hpp"
#include "transport/shm/ring_link.hpp"

using namespace unisono;

namespace {

Caller nobody;

constexpr int ranks = 3;
constexpr std::size_t elements_of_block = 1001;

const Home nowhere{-1, -1};

Home out(int block) { return {static_cast<int>(Area::out), block}; }

/// The ring allreduce of one rank, in place: ranks - 1 rounds that add up, as many that hand out.
Program ring_allreduce(int rank) {
    std::vector<Instruction> rows;
    std::vector<std::int32_t> waits_for, waits_from{0};
    const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 2 * (ranks - 1); ++round) {
        const bool adds = round < ranks - 1;
        const int sent = (rank - round - 1 + 2 * ranks) % ranks, received = (sent + ranks - 1) % ranks;
        // A block is passed on when it has been received, and overwritten when it has been sent.
        if (round > 0) waits_for.push_back(2 * round - 1);
        waits_from.push_back(static_cast<std::int32_t>(waits_for.size()));
        rows.push_back({Kind::send, next, How::copy, 2 * round, sent, nowhere, out(sent), nowhere});
        if (!adds) waits_for.push_back(2 * (round - ranks + 1));
        waits_from.push_back(static_cast<std::int32_t>(waits_for.size()));
        const auto how = adds ? How::reduce_before : How::copy;
        rows.push_back({Kind::receive, last, how, 2 * round + 1, received, out(received), nowhere,
                        adds ? out(received) : nowhere});
    }
    return Program(rank, ranks, ranks, {}, rows, {}, waits_for, waits_from);
}

std::vector<std::unique_ptr<Executor>> connected(std::size_t ring_bytes) {
    std::vector<std::shared_ptr<Inbox>> inboxes;
    for (int rank = 0; rank < ranks; ++rank)
        inboxes.push_back(std::make_shared<Inbox>(Inbox::create({ranks, ring_bytes})));
    std::vector<std::unique_ptr<Executor>> result;
    for (int rank = 0; rank < ranks; ++rank) {
        std::vector<std::unique_ptr<Link>> links(ranks);
        for (int peer = 0; peer < ranks; ++peer) {
            const auto mine = inboxes[static_cast<std::size_t>(rank)],
                       theirs = inboxes[static_cast<std::size_t>(peer)];
            if (peer != rank)
                links[static_cast<std::size_t>(peer)] = std::make_unique<RingLink>(mine, rank, theirs, peer);
        }
        result.push_back(std::make_unique<Executor>(rank, std::move(links),
                                                    Host{.own = nullptr, .more_ranks_than_cores = true}));
    }
    return result;
}

LinkPlan ring_plan(int rank, std::uint64_t fingerprint = 1) {
    constexpr std::uint64_t bytes = elements_of_block * sizeof(float);
    const std::vector<std::uint64_t> offsets{0, bytes, 2 * bytes};
    return {.program = std::make_shared<Program>(ring_allreduce(rank)),
            .sizes = std::vector<std::uint64_t>(ranks, bytes),
            .in_offsets = offsets,
            .out_offsets = offsets,
            .arithmetic = {Dtype::f32, Op::sum},
            .fingerprint = fingerprint,
            .pairwise = false};
}

struct Vector {
    std::vector<float> values = std::vector<float>(ranks * elements_of_block);

    Request request(std::chrono::milliseconds budget) {
        const Array array{reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
        return {array, array, Clock::now() + budget};
    }
};

void sums_arrive_everywhere(std::size_t ring_bytes) {
    auto executors = connected(ring_bytes);
    std::vector<Vector> vectors(ranks);
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
            auto& vector = vectors[static_cast<std::size_t>(rank)];
            const auto plan = ring_plan(rank);
            for (int call = 0; call < 3; ++call) {
                std::iota(vector.values.begin(), vector.values.end(), static_cast<float>(rank + call));
                executors[static_cast<std::size_t>(rank)]->run(plan, vector.request(std::chrono::seconds(30)),
                                                               nobody);
                for (std::size_t i = 0; i < vector.values.size(); ++i)
                    expect(vector.values[i] ==
                               static_cast<float>(3 * i + 3 + 3 * static_cast<std::size_t>(call)),
                           "the sum of all ranks");
            }
        });
    threads.clear();
    for (const auto& executor : executors) {
        const auto& sent = executor->counters().sent;
        expect(std::accumulate(sent.begin(), sent.end(), std::uint64_t{0}) == 3 * 4 * elements_of_block * 4,
               "2 (p - 1) blocks sent in each of 3 calls");
        expect(executor->counters().calls == 3, "3 calls counted");
    }
}

void a_missing_rank_is_a_deadline() {
    auto executors = connected(4096);
    Vector vector;
    try {
        executors[0]->run(ring_plan(0), vector.request(std::chrono::milliseconds(50)), nobody);
        expect(false, "a deadline");
    } catch (const DeadlineExceeded& error) {
        expect(std::strstr(error.what(), "rank 2") != nullptr, "the awaited rank in the text");
    }
    try {
        executors[0]->run(ring_plan(0), vector.request(std::chrono::milliseconds(50)), nobody);
        expect(false, "a closed executor");
    } catch (const PeerLost&) {
    }
}

void other_arguments_are_a_mismatch() {
    auto executors = connected(4096);
    std::vector<std::jthread> threads;
    std::atomic<int> told = 0;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
            Vector vector;
            const std::uint64_t fingerprint = rank == 1 ? 7 : 8;
            try {
                executors[static_cast<std::size_t>(rank)]->run(
                    ring_plan(rank, fingerprint), vector.request(std::chrono::seconds(5)), nobody);
            } catch (const Mismatch&) {
                ++told;
            } catch (const DeadlineExceeded&) {
            }
        });
    threads.clear();
    expect(told >= 2, "who receives from a rank with other arguments is told");
}

void wrong_programs_are_refused() {
    const Instruction fine{Kind::receive, 1, How::copy, 0, 0, out(0), nowhere, nowhere};
    const auto refused = [](Instruction row, std::vector<std::int32_t> waits,
                            std::vector<std::int32_t> from) {
        try {
            Program(0, ranks, 1, {}, {row}, {}, std::move(waits), std::move(from));
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    expect(!refused(fine, {}, {0, 0}), "a right program to be accepted");
    auto row = fine;
    row.peer = ranks;
    expect(refused(row, {}, {0, 0}), "a peer that does not exist to be refused");
    row = fine;
    row.target = {static_cast<int>(Area::in), 0};
    expect(refused(row, {}, {0, 0}), "a write into the input to be refused");
    row = fine;
    row.target = {static_cast<int>(Area::slot), 0};
    expect(refused(row, {}, {0, 0}), "a slot that does not exist to be refused");
    row = fine;
    row.block = 1;
    expect(refused(row, {}, {0, 0}), "a block that does not exist to be refused");
    expect(refused(fine, {0}, {0, 1}), "waiting for itself to be refused");
    expect(refused(fine, {}, {0, 1}), "waits that do not fit to be refused");
}

void programs_that_leave_their_memory_are_refused() {
    const auto refused = [](int rank, int world, Instruction row, std::vector<Home> operands) {
        try {
            Program(rank, world, 2, {1}, {row}, std::move(operands), {}, {0, 0});
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    const Home slot{static_cast<int>(Area::slot), 0};
    const Instruction fold{Kind::fold, -1, How::copy, -1, 1, slot, nowhere, {0, 2}};
    expect(!refused(0, ranks, fold, {out(1), slot}), "a right fold to be accepted");
    expect(refused(0, ranks, fold, {out(1), nowhere}), "a fold of nothing to be refused");
    expect(refused(-1, ranks, fold, {out(1), slot}), "a rank that does not exist to be refused");
    expect(refused(0, -1, fold, {out(1), slot}), "a world without ranks to be refused");
    auto row = fold;
    row.block = 0;
    expect(refused(0, ranks, row, {out(0), out(0)}), "a slot of another block to be refused");
}

/// Each would take memory in every call.
void numbers_of_messages_that_nobody_uses_do_not_count() {
    const Instruction far{Kind::receive, 1, How::copy, 0x7fffffff, 0, out(0), nowhere, nowhere};
    expect(Program(0, ranks, 1, {}, {far}, {}, {}, {0, 0}).messages() == 1, "one message");
}

void wrong_rounds_are_refused() {
    const Instruction row{Kind::receive, 1, How::copy, 0, 0, out(0), nowhere, nowhere};
    const auto refused = [&](Rounds rounds) {
        try {
            Program(0, ranks, 1, {}, {row, row}, {}, {}, {0, 0, 0}, std::move(rounds));
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    expect(!refused({{0, 3}, 4}) && !refused({}), "right rounds to be accepted");
    expect(refused({{0, 4}, 4}) && refused({{-1, 0}, 4}), "a round that the schedule has not to be refused");
    expect(refused({{0}, 4}), "rounds of other instructions to be refused");
    expect(refused({{2, 1}, 4}), "rounds that fall to be refused");
}

}  // namespace

int main() {
    sums_arrive_everywhere(64);
    sums_arrive_everywhere(1 << 16);
    a_missing_rank_is_a_deadline();
    other_arguments_are_a_mismatch();
    wrong_programs_are_refused();
    wrong_rounds_are_refused();
    programs_that_leave_their_memory_are_refused();
    numbers_of_messages_that_nobody_uses_do_not_count();
}
