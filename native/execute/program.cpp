#include "execute/program.hpp"

#include <algorithm>

#include "execute/check.hpp"

namespace unisono {

namespace {

bool is_message(const Instruction& each) { return each.kind == Kind::send || each.kind == Kind::receive; }

}  // namespace

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
    number_messages();
    sort_by_peer();
    windows_ = Windows(*this);
}

void Program::sort_by_peer() {
    for (std::size_t i = 0; i < instructions_.size(); ++i) {
        const auto& instruction = instructions_[i];
        const auto row = static_cast<std::int32_t>(i);
        if (instruction.kind == Kind::local || instruction.kind == Kind::fold) {
            locals_.push_back(row);
            continue;
        }
        auto known = std::ranges::find(traffic_, instruction.peer, &Traffic::peer);
        if (known == traffic_.end()) known = traffic_.insert(known, Traffic{instruction.peer, {}, {}});
        (instruction.kind == Kind::send ? known->sends : known->receives).push_back(row);
    }
}

/// From 0 up, without gaps: each number takes memory in every call.
void Program::number_messages() {
    std::vector<std::int32_t> known;
    for (const auto& each : instructions_)
        if (is_message(each)) known.push_back(each.message);
    std::ranges::sort(known);
    known.erase(std::unique(known.begin(), known.end()), known.end());
    for (auto& each : instructions_)
        if (is_message(each))
            each.message =
                static_cast<std::int32_t>(std::ranges::lower_bound(known, each.message) - known.begin());
    messages_ = static_cast<int>(known.size());
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
    require(blocks_ >= 0 && ranks > 0 && within(rank, static_cast<std::size_t>(ranks)), 0,
            "a program of no rank");
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
        if (is_message(instructions_[i]))
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
            for (const auto& home : operands_of(instructions_[i])) {
                require(home.exists(), i, "folds nothing");
                check_home(i, home);
            }
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
    require(!is_slot || within(home.number, slots_.size()), row, "no such slot");
    const auto block = is_slot ? slots_[static_cast<std::size_t>(home.number)] : home.number;
    require(block == instructions_[row].block, row, "a place of another block");
}

}  // namespace unisono
