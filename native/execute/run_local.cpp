/// What a call over links does with bytes that are here.

#include <algorithm>
#include <cstring>

#include "execute/run.hpp"
#include "reduce/reduce.hpp"

namespace unisono {

bool Executor::Run::work_locally() {
    bool progress = false;
    std::erase_if(scratch_.locals, [&](std::int32_t row) {
        if (is_held(row)) return false;
        progress |= copy_or_reduce_locally(row);
        return position(row).done;
    });
    return progress;
}

bool Executor::Run::copy_or_reduce_locally(std::int32_t row) {
    std::size_t limit = 0;
    if (!may_advance(row, limit)) return false;
    const std::size_t done = position(row).reached;
    // Not across the end of a window.
    const std::size_t bytes = std::min(limit - done, chunk - done % chunk) / element_ * element_;
    if (bytes == 0) {
        if (position(row).size > 0) return false;
        advance(row, 0);  // of no bytes: there may be no memory for them either
        return true;
    }
    if (instruction(row).kind == Kind::fold) {
        fold(row, bytes);
        return true;
    }
    const auto* source = address(instruction(row).source, done);
    if (instruction(row).how == How::copy)
        std::memmove(address(instruction(row).target, done), source, bytes);
    else
        combine_into_target(row, source, bytes);
    advance(row, bytes);
    return true;
}

void Executor::Run::fold(std::int32_t row, std::size_t bytes) {
    const std::size_t done = position(row).reached;
    auto& operands = scratch_.operands;
    operands.clear();
    for (const auto& home : program_.operands_of(instruction(row))) operands.push_back(address(home, done));
    combine_many(plan_.arithmetic.op, plan_.arithmetic.dtype, address(instruction(row).target, done),
                 operands, bytes / element_);
    advance(row, bytes);
}

void Executor::Run::combine_into_target(std::int32_t row, const std::byte* other, std::size_t bytes) {
    const auto& [kind, peer, how, message, block, target, source, operand] = instruction(row);
    auto* into = address(target, position(row).reached);
    const auto* present = address(operand, position(row).reached);
    if (into != present) std::memcpy(into, present, bytes);
    combine(plan_.arithmetic.op, plan_.arithmetic.dtype, into, other, bytes / element_,
            how == How::reduce_before);
}

}  // namespace unisono
