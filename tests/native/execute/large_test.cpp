/// Blocks that lie beyond the reach of 32 bits. The memory is sparse: only what is used exists.

#include <sys/mman.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "execute/executor.hpp"
#include "expect.hpp"
#include "transport/shm/ring_link.hpp"

using namespace unisono;

namespace {

Caller nobody;

constexpr std::uint64_t four_gibibytes = std::uint64_t{1} << 32;
constexpr std::size_t volume = 2 * four_gibibytes + 4096;
constexpr std::size_t block_bytes = 1000;

class SparseMemory {
  public:
    SparseMemory()
        : start_(::mmap(nullptr, volume, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                        -1, 0)) {
        expect(start_ != MAP_FAILED, "8 GiB of addresses");
    }
    SparseMemory(const SparseMemory&) = delete;
    SparseMemory& operator=(const SparseMemory&) = delete;
    ~SparseMemory() { ::munmap(start_, volume); }

    std::byte* at(std::uint64_t offset) { return static_cast<std::byte*>(start_) + offset; }

    bool is_filled_with(int value, std::uint64_t offset) {
        for (std::size_t i = 0; i < block_bytes; ++i)
            if (*at(offset + i) != static_cast<std::byte>(value)) return false;
        return true;
    }

  private:
    void* start_;
};

/// Block 0 goes to the peer, which adds it to its block 1.
Program send_and_add(int rank) {
    const Home nowhere{-1, -1}, in{static_cast<int>(Area::in), 0}, out{static_cast<int>(Area::out), 1};
    return Program(rank, 2, 2, {},
                   {{Kind::send, 1 - rank, How::copy, 0, 0, nowhere, in, nowhere},
                    {Kind::receive, 1 - rank, How::reduce_after, 1, 1, out, nowhere, out}},
                   {}, {}, {0, 0, 0});
}

void blocks_beyond_4_gib_are_read_and_written_where_they_lie() {
    const std::vector<std::uint64_t> sizes{block_bytes, block_bytes};
    const std::vector<std::uint64_t> ins{four_gibibytes + 5, 0}, outs{0, 2 * four_gibibytes + 7};
    std::vector<std::shared_ptr<Inbox>> inboxes;
    for (int rank = 0; rank < 2; ++rank) inboxes.push_back(std::make_shared<Inbox>(Inbox::create({2, 256})));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank)
        threads.emplace_back([&, rank] {
            const auto mine = inboxes[static_cast<std::size_t>(rank)],
                       theirs = inboxes[static_cast<std::size_t>(1 - rank)];
            std::vector<std::unique_ptr<Link>> links(2);
            links[static_cast<std::size_t>(1 - rank)] =
                std::make_unique<RingLink>(mine, rank, theirs, 1 - rank);
            Executor executor(rank, std::move(links), Host{.own = nullptr, .more_ranks_than_cores = true});
            SparseMemory in, out;
            std::memset(in.at(ins[0]), 10 + rank, block_bytes);
            std::memset(out.at(outs[1]), 50, block_bytes);
            const LinkPlan plan{.program = std::make_shared<Program>(send_and_add(rank)),
                                .sizes = sizes,
                                .in_offsets = ins,
                                .out_offsets = outs,
                                .arithmetic = {Dtype::i8, Op::sum},
                                .fingerprint = 1,
                                .pairwise = false};
            const auto deadline = Clock::now() + std::chrono::seconds(30);
            executor.run(plan,
                         {{in.at(0), ins[0] + block_bytes}, {out.at(0), outs[1] + block_bytes}, deadline},
                         nobody);
            expect(out.is_filled_with(50 + 10 + 1 - rank, outs[1]), "the sum beyond 8 GiB");
            expect(out.is_filled_with(0, outs[1] % four_gibibytes), "nothing where 32 bits would end");
        });
}

}  // namespace

int main() { blocks_beyond_4_gib_are_read_and_written_where_they_lie(); }
