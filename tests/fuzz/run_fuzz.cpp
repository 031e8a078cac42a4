/// A call ends in success, a lost peer or a mismatch, whatever its peers send; and how the bytes are cut into
/// pieces on their way makes no difference.

#include "call.hpp"
#include "programs.hpp"
#include "script.hpp"

using namespace unisono;

namespace {

std::shared_ptr<const Program> choose_program(Script& script) {
    switch (script.below(4)) {
        case 0:
            return std::make_shared<Program>(swapping());
        case 1:
            return std::make_shared<Program>(reducing(How::reduce_before));
        case 2:
            return std::make_shared<Program>(reducing(How::reduce_after));
        default:
            return std::make_shared<Program>(folding());
    }
}

Arithmetic choose_arithmetic(Script& script) {
    const auto dtype = static_cast<Dtype>(script.below(static_cast<std::size_t>(Dtype::boolean) + 1));
    const auto op = static_cast<Op>(script.below(static_cast<std::size_t>(Op::bit_xor) + 1));
    return {dtype, supports(op, dtype) ? op : Op::sum};
}

bool is_floating(Dtype dtype) { return dtype <= Dtype::bf16; }

/// What the peers send: what is due, with a few bytes changed or missing; or anything.
std::vector<std::vector<std::byte>> choose_incoming(const LinkPlan& plan, Script& script) {
    std::vector<std::vector<std::byte>> incoming(ranks_of_programs);
    const bool anything = script.below(4) == 3;
    const auto changes = script.number<std::uint32_t>();
    const auto missing = script.number<std::uint8_t>();
    for (const auto& traffic : plan.program->traffic()) {
        auto& stream = incoming[static_cast<std::size_t>(traffic.peer)];
        if (anything) {
            stream = script.bytes(script.number<std::uint8_t>());
            continue;
        }
        stream = genuine(plan, traffic, [&] { return script.number<std::byte>(); });
        if (const auto at = changes & 0xffff; (changes >> 16 & 0xff) != 0 && at < stream.size())
            stream[at] ^= static_cast<std::byte>(changes >> 16 & 0xff);
        if (missing % 4 == 3) stream.resize(stream.size() - std::min<std::size_t>(stream.size(), missing));
    }
    return incoming;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Script script({data, size});
    const auto program = choose_program(script);
    const auto arithmetic = choose_arithmetic(script);
    std::vector<std::uint64_t> sizes;
    for (int block = 0; block < program->blocks(); ++block)
        sizes.push_back(script.below(40) * size_of(arithmetic.dtype));
    std::vector<std::uint8_t> pieces(script.below(9));
    for (auto& each : pieces) each = script.number<std::uint8_t>();
    const auto plan = plan_for(program, sizes, arithmetic);
    const auto incoming = choose_incoming(plan, script);
    const auto whole = make_call(plan, incoming, {}), cut = make_call(plan, incoming, pieces);
    demand((whole.end == End::success) == (cut.end == End::success), "the same end in pieces");
    // Of two operands that are not numbers, which one's bits are kept is up to the processor's instruction.
    if (!is_floating(arithmetic.dtype)) demand(whole.out == cut.out, "the same result in pieces");
    return 0;
}
