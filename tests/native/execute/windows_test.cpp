/// Folds of blocks that are larger than the windows that they come through, and which slots may be windows.

#include "execute/windows.hpp"

#include <array>
#include <thread>

#include "execute/executor.hpp"
#include "expect.hpp"
#include "transport/shm/ring_link.hpp"

using namespace unisono;

namespace {

Caller nobody;

constexpr int ranks = 3;
constexpr std::size_t elements = 100'003;  // of a block; some windows, and a part of one
const Home nowhere{-1, -1};

Home in(int block) { return {static_cast<int>(Area::in), block}; }
Home out(int block) { return {static_cast<int>(Area::out), block}; }
Home slot(int number) { return {static_cast<int>(Area::slot), number}; }

/// Everybody sends every other rank that rank's block, and folds its own in rank order.
Program direct_reduce_scatter(int rank) {
    std::vector<Instruction> rows;
    std::vector<Home> operands;
    for (int peer = 0; peer < ranks; ++peer)
        if (peer != rank)
            rows.push_back({Kind::send, peer, How::copy, peer, peer, nowhere, in(peer), nowhere});
    int slots = 0;
    for (int peer = 0; peer < ranks; ++peer) {
        operands.push_back(peer == rank ? in(rank) : slot(slots));
        if (peer == rank) continue;
        rows.push_back({Kind::receive, peer, How::copy, ranks + peer, rank, slot(slots++), nowhere, nowhere});
    }
    rows.push_back({Kind::fold, -1, How::copy, -1, rank, out(rank), nowhere, {0, ranks}});
    return Program(rank, ranks, ranks, {rank, rank}, rows, operands, {2, 3}, {0, 0, 0, 0, 0, 2});
}

void blocks_larger_than_windows_are_folded_right() {
    constexpr std::uint64_t bytes = elements * sizeof(float);
    const std::vector<std::uint64_t> offsets{0, bytes, 2 * bytes};
    std::vector<std::shared_ptr<Inbox>> inboxes;
    for (int rank = 0; rank < ranks; ++rank)
        inboxes.push_back(std::make_shared<Inbox>(Inbox::create({ranks, 1024})));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
            std::vector<std::unique_ptr<Link>> links(ranks);
            for (int peer = 0; peer < ranks; ++peer)
                if (peer != rank)
                    links[static_cast<std::size_t>(peer)] =
                        std::make_unique<RingLink>(inboxes[static_cast<std::size_t>(rank)], rank,
                                                   inboxes[static_cast<std::size_t>(peer)], peer);
            Executor executor(rank, std::move(links), Host{.own = nullptr, .more_ranks_than_cores = true});
            const LinkPlan plan{.program = std::make_shared<Program>(direct_reduce_scatter(rank)),
                                .sizes = std::vector<std::uint64_t>(ranks, bytes),
                                .in_offsets = offsets,
                                .out_offsets = offsets,
                                .arithmetic = {Dtype::f32, Op::sum},
                                .fingerprint = 1,
                                .pairwise = false};
            std::vector<float> source(ranks * elements), target(ranks * elements);
            for (std::size_t i = 0; i < source.size(); ++i)
                source[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
            const Array from{reinterpret_cast<std::byte*>(source.data()), source.size() * sizeof(float)};
            const Array to{reinterpret_cast<std::byte*>(target.data()), target.size() * sizeof(float)};
            for (int call = 0; call < 2; ++call)
                executor.run(plan, {from, to, Clock::now() + std::chrono::seconds(30)}, nobody);
            for (std::size_t i = static_cast<std::size_t>(rank) * elements, k = 0; k < elements; ++i, ++k)
                expect(target[i] == 3 * static_cast<float>(i % 1000) + 3, "the sum of all ranks");
        });
}

void slots_of_a_fold_are_windows() {
    const auto program = direct_reduce_scatter(1);
    expect(program.is_window(0) && program.is_window(1), "both slots to be windows");
    expect(program.fold_behind(2) == 4 && program.fold_behind(3) == 4, "both receives to know the fold");
    expect(program.fold_behind(0) < 0 && program.fold_behind(4) < 0, "sends and folds to fill none");
}

/// Rank 0 of 3: two blocks arrive from each peer, in the order that is given, and each is folded.
Program folding_two_blocks(std::array<int, 4> blocks, std::vector<std::int32_t> waits_for_send = {}) {
    std::vector<Instruction> rows{{Kind::send, 1, How::copy, 9, 0, nowhere, out(0), nowhere}};
    std::vector<std::int32_t> slots;
    std::array<std::vector<Home>, 2> operands{{{out(0)}, {out(1)}}};
    std::array<std::vector<std::int32_t>, 2> waits{waits_for_send, {}};
    for (int i = 0; i < 4; ++i) {
        const int block = blocks[static_cast<std::size_t>(i)];
        operands[static_cast<std::size_t>(block)].push_back(slot(i));
        waits[static_cast<std::size_t>(block)].push_back(static_cast<std::int32_t>(rows.size()));
        slots.push_back(block);
        rows.push_back({Kind::receive, 1 + i / 2, How::copy, i / 2, block, slot(i), nowhere, nowhere});
    }
    for (int block = 0; block < 2; ++block)
        rows.push_back({Kind::fold, -1, How::copy, -1, block, out(block), nowhere, {3 * block, 3}});
    std::vector<Home> all = operands[0];
    all.insert(all.end(), operands[1].begin(), operands[1].end());
    std::vector<std::int32_t> waits_for = waits[0], waits_from(6, 0);
    waits_from.push_back(static_cast<std::int32_t>(waits[0].size()));
    waits_for.insert(waits_for.end(), waits[1].begin(), waits[1].end());
    waits_from.push_back(static_cast<std::int32_t>(waits_for.size()));
    return Program(0, ranks, 2, slots, rows, all, waits_for, waits_from);
}

void only_first_blocks_of_messages_come_through_windows() {
    const auto same = folding_two_blocks({0, 1, 0, 1});
    expect(same.is_window(0) && same.is_window(2), "the first block of both messages to have windows");
    expect(!same.is_window(1) && !same.is_window(3), "the second one to wait for nobody");
    // Either would wait for the other peer's second block, which comes after its first.
    const auto crossed = folding_two_blocks({0, 1, 1, 0});
    for (std::size_t i = 0; i < 4; ++i) expect(!crossed.is_window(i), "no windows that wait for each other");
}

void a_fold_that_waits_for_a_send_of_its_round_has_no_windows() {
    const auto program = folding_two_blocks({0, 1, 0, 1}, {0});
    expect(!program.is_window(0) && !program.is_window(2), "slots for whole blocks");
}

}  // namespace

int main() {
    blocks_larger_than_windows_are_folded_right();
    slots_of_a_fold_are_windows();
    only_first_blocks_of_messages_come_through_windows();
    a_fold_that_waits_for_a_send_of_its_round_has_no_windows();
}
