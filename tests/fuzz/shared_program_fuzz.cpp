/// A program for shared memory of any columns is refused, or runs to its end within its memory.

#include <numeric>

#include "call.hpp"
#include "execute/shared_program.hpp"
#include "script.hpp"

using namespace unisono;

namespace {

Caller nobody;

constexpr std::size_t stage_bytes = 1024;
constexpr std::uint64_t window = 64, windows = 2;

SharedInstruction choose_instruction(Script& script) {
    return {static_cast<SharedKind>(script.near(5)), script.near(5), script.near(5), script.near(3),
            script.near(3)};
}

std::shared_ptr<const SharedProgram> choose_program(Script& script, std::int32_t ranks) {
    const auto rank = script.below(8) == 7 ? script.near(ranks) : 0;
    const auto blocks = script.near(4), steps = script.near(5);
    std::vector<SharedPlace> places(script.below(8));
    for (auto& each : places) each = {script.near(1), script.near(4), script.near(4), script.near(8)};
    std::vector<SharedInstruction> rows(script.below(12));
    for (auto& each : rows) each = choose_instruction(script);
    std::vector<std::int32_t> references(script.below(12));
    for (auto& each : references) each = script.near(static_cast<std::int32_t>(places.size()));
    return std::make_shared<SharedProgram>(rank, ranks, blocks, steps, places, rows, references);
}

SharedPlan choose_plan(Script& script, std::shared_ptr<const SharedProgram> program) {
    SharedPlan plan{.program = program,
                    .sizes = {},
                    .offsets = {},
                    .staged = {},
                    .window = window,
                    .windows = windows,
                    .stage_step = stage_bytes / 2,
                    .stage_turns = 1 + script.below(2),
                    .tiny = script.below(4) == 3,
                    .may_stage = script.below(2) == 1,
                    .arithmetic = {Dtype::i32, Op::sum},
                    .fingerprint = fingerprint};
    // One after the other, so that a byte beyond a block's end is another block's, or nobody's.
    std::vector<std::uint64_t> starts;
    for (int block = 0; block < program->blocks(); ++block) {
        starts.push_back(std::accumulate(plan.sizes.begin(), plan.sizes.end(), std::uint64_t{0}));
        plan.sizes.push_back(4 * script.below(32));
    }
    for (const auto& place : program->places()) {
        const bool is_staged = place.area >= static_cast<std::int32_t>(Area::slot);
        plan.offsets.push_back(is_staged ? 0 : starts[static_cast<std::size_t>(place.number)]);
        plan.staged.push_back(window * static_cast<std::uint64_t>(std::max(0, place.entry)));
    }
    plan.check(stage_bytes);
    return plan;
}

/// A rank that shares its memory with nobody, which is enough to run what it does on its own.
void run_alone(const SharedPlan& plan) {
    static const auto inbox = std::make_shared<Inbox>(Inbox::create({1, 64, stage_bytes, 64}));
    Host host{.own = inbox, .more_ranks_than_cores = true};
    host.neighbours.own = inbox;
    host.neighbours.ranks.resize(1);
    static std::uint64_t calls = 0;  // they only grow on a board
    host.neighbours.call = calls++;
    Executor executor(0, std::vector<std::unique_ptr<Link>>(1), std::move(host));
    const auto bytes = std::accumulate(plan.sizes.begin(), plan.sizes.end(), std::uint64_t{0});
    std::vector<std::byte> in(bytes, std::byte{3}), out(bytes, std::byte{5});
    executor.run(plan, {{in.data(), bytes}, {out.data(), bytes}, Clock::now() + std::chrono::seconds(20)},
                 nobody);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Script script({data, size});
    const auto ranks = script.near(2);
    try {
        const auto program = choose_program(script, ranks);
        demand(ranks > 0 && program->blocks() >= 0 && program->steps() >= 0,
               "a world that has ranks and blocks");
        for (const auto& row : program->instructions())
            if (row.kind == SharedKind::combine) demand(!program->references(row).empty(), "operands");
        if (ranks == 1 && program->blocks() <= 64) run_alone(choose_plan(script, program));
    } catch (const std::invalid_argument&) {
    }
    return 0;
}
