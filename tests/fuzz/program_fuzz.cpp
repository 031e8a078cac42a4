/// A program for links of any columns is refused, or runs to its end within its memory.

#include "call.hpp"
#include "execute/program.hpp"
#include "script.hpp"

using namespace unisono;

namespace {

Home choose_home(Script& script, std::int32_t blocks) { return {script.near(3), script.near(blocks)}; }

Instruction choose_instruction(Script& script, std::int32_t ranks, std::int32_t blocks) {
    return {static_cast<Kind>(script.near(4)),
            script.near(ranks),
            static_cast<How>(script.near(3)),
            script.near(8),
            script.near(blocks),
            choose_home(script, blocks),
            choose_home(script, blocks),
            choose_home(script, blocks)};
}

std::shared_ptr<const Program> choose_program(Script& script, std::int32_t ranks) {
    const auto rank = script.below(8) == 7 ? script.near(ranks) : 0;
    const auto blocks = script.near(4);
    std::vector<std::int32_t> slots(script.below(4)), waits_for, waits_from{0};
    for (auto& each : slots) each = script.near(blocks > 0 && blocks < 64 ? blocks : 1);
    std::vector<Instruction> rows(script.below(12));
    for (auto& row : rows) {
        row = choose_instruction(script, ranks, 4);
        for (auto waits = script.below(3); waits > 0; --waits)
            waits_for.push_back(script.near(static_cast<std::int32_t>(rows.size())));
        waits_from.push_back(static_cast<std::int32_t>(waits_for.size()));
    }
    if (script.below(16) == 15)
        waits_from[script.below(waits_from.size())] =
            script.near(static_cast<std::int32_t>(waits_for.size()));
    if (script.below(16) == 15) waits_from.resize(script.below(rows.size() + 2));
    std::vector<Home> operands(script.below(6));
    for (auto& home : operands) home = choose_home(script, 4);
    return std::make_shared<Program>(rank, ranks, blocks, slots, rows, operands, waits_for, waits_from);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Script script({data, size});
    const auto ranks = script.near(4);
    std::shared_ptr<const Program> program;
    try {
        program = choose_program(script, ranks);
    } catch (const std::invalid_argument&) {
        return 0;
    }
    demand(ranks > 0 && program->blocks() >= 0, "a world that has ranks and blocks");
    if (ranks > 64 || program->blocks() > 64) return 0;
    std::vector<std::uint64_t> sizes;
    for (int block = 0; block < program->blocks(); ++block) sizes.push_back(4 * script.below(40));
    const auto plan = plan_for(program, sizes, {Dtype::i32, Op::sum});
    std::vector<std::vector<std::byte>> incoming(static_cast<std::size_t>(ranks));
    for (const auto& traffic : program->traffic()) {
        if (traffic.peer == 0) return 0;  // a program of another rank: here is rank 0
        incoming[static_cast<std::size_t>(traffic.peer)] =
            genuine(plan, traffic, [&] { return script.number<std::byte>(); });
    }
    demand(make_call(plan, incoming, {}).end == End::success, "a program that was accepted to end");
    demand(make_call(plan, incoming, {1, 0, 7}).end == End::success, "a program that was accepted to end");
    return 0;
}
