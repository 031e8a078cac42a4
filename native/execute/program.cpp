#include "execute/program.hpp"

#include <algorithm>

#include "execute/check.hpp"

namespace unisono {

Program::Program(int rank, int ranks, int blocks, std::vector<std::int32_t> slots,
                 std::vector<Instruction> instructions, std::vector<Home> operands,
                 std::vector<std::int32_t> waits_for, std::vector<std::int32_t> waits_from, Rounds rounds)
    : blocks_(blocks),
      slots_(std::move(slots)),
      instructions_(std::move(instructions)),
      operands_(std::move(operands)),
      waits_for_(std::move(waits_for)),
      waits_from_(std::move(waits_from)),
      rounds_(fitting(std::move(rounds), instructions_.size())) {
    check(rank, ranks);
    for (std::size_t i = 0; i < instructions_.size(); ++i) {
        const auto& instruction = instructions_[i];
        const auto row = static_cast<std::int32_t>(i);
        if (instruction.kind == Kind::local || instruction.kind == Kind::fold) {
            locals_.push_back(row);
            continue;
        }
        messages_ = std::max(messages_, instruction.message + 1);
        auto known = std::ranges::find(traffic_, instruction.peer, &Traffic::peer);
        if (known == traffic_.end()) known = traffic_.insert(known, Traffic{instruction.peer, {}, {}});
        (instruction.kind == Kind::send ? known->sends : known->receives).push_back(row);
    }
}

std::span<const std::int32_t> Program::waits_of(std::int32_t instruction) const {
    const auto i = static_cast<std::size_t>(instruction);
    const auto begin = static_cast<std::size_t>(waits_from_[i]),
               end = static_cast<std::size_t>(waits_from_[i + 1]);
    return std::span(waits_for_).subspan(begin, end - begin);
}

std::span<const Home> Program::operands_of(const Instruction& fold) const {
    return std::span(operands_).subspan(static_cast<std::size_t>(fold.operand.area),
                                        static_cast<std::size_t>(fold.operand.number));
}

void Program::check(int rank, int ranks) const {
    const auto count = instructions_.size();
    require(waits_from_.size() == count + 1 && waits_from_.front() == 0, count,
            "waits do not fit the instructions");
    require(static_cast<std::size_t>(waits_from_.back()) == waits_for_.size(), count, "waits do not fit");
    require(std::ranges::is_sorted(waits_from_), count, "waits are not in order");
    require(std::ranges::is_sorted(rounds_.of), count, "rounds are not in order");
    for (const auto block : slots_)
        require(within(block, static_cast<std::size_t>(blocks_)), 0, "slot of no block");
    for (std::size_t i = 0; i < count; ++i) {
        const auto& [kind, peer, how, message, block, target, source, operand] = instructions_[i];
        require(kind >= Kind::send && kind <= Kind::fold, i, "unknown kind");
        require(how == How::copy || how == How::reduce_before || how == How::reduce_after, i, "unknown how");
        require(within(block, static_cast<std::size_t>(blocks_)), i, "no such block");
        if (kind == Kind::send || kind == Kind::receive)
            require(within(peer, static_cast<std::size_t>(ranks)) && peer != rank && message >= 0, i,
                    "no such peer");
        require(kind == Kind::send || target.exists(), i, "writes nowhere");
        require(kind == Kind::receive || kind == Kind::fold || source.exists(), i, "reads nowhere");
        require(how == How::copy || operand.exists(), i, "reduces with nothing");
        check_home(i, target);
        check_home(i, source);
        if (kind == Kind::fold) {
            const auto first = static_cast<std::size_t>(operand.area);
            require(operand.area >= 0 && operand.number >= 2 &&
                        first + static_cast<std::size_t>(operand.number) <= operands_.size(),
                    i, "folds what is not there");
            for (const auto& home : operands_of(instructions_[i])) check_home(i, home);
        } else {
            check_home(i, operand);
        }
        require(target.area != static_cast<std::int32_t>(Area::in), i, "writes into the input");
        for (const auto wait : waits_of(static_cast<std::int32_t>(i)))
            require(within(wait, i), i, "waits for what comes later");
    }
}

void Program::check_home(std::size_t row, Home home) const {
    if (!home.exists()) return;
    const bool is_slot = home.area == static_cast<std::int32_t>(Area::slot);
    require(home.area <= static_cast<std::int32_t>(Area::slot), row, "unknown area");
    require(is_slot ? within(home.number, slots_.size()) : home.number == instructions_[row].block, row,
            "no such place");
}

}  // namespace unisono
