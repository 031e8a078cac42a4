#include "execute/windows.hpp"

#include <algorithm>

#include "execute/program.hpp"

namespace unisono {

namespace {

constexpr std::int32_t none = -1;

std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

bool is_slot(Home home) { return home.area == static_cast<std::int32_t>(Area::slot); }

/// What a slot is used for.
struct Uses {
    std::int32_t receive = none;  // that fills it
    int others = 0;               // that read or write it, of which a fold may be one
};

std::vector<Uses> uses_of_slots(const Program& program) {
    std::vector<Uses> uses(program.slots().size());
    const auto rows = program.instructions();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto& row = rows[i];
        const bool fills = row.kind == Kind::receive && row.how == How::copy;
        if (is_slot(row.target)) {
            auto& slot = uses[index(row.target.number)];
            if (fills && slot.receive == none)
                slot.receive = static_cast<std::int32_t>(i);
            else
                ++slot.others;
        }
        if (is_slot(row.source)) ++uses[index(row.source.number)].others;
        if (row.kind == Kind::fold) {
            for (const auto& home : program.operands_of(row))
                if (is_slot(home)) ++uses[index(home.number)].others;
        } else if (is_slot(row.operand)) {
            ++uses[index(row.operand.number)].others;
        }
    }
    return uses;
}

bool begins_message(const Program& program, std::int32_t receive) {
    const auto& row = program.instructions()[index(receive)];
    const auto& lane = *std::ranges::find(program.traffic(), row.peer, &Program::Traffic::peer);
    const auto place = std::ranges::find(lane.receives, receive);
    return place == lane.receives.begin() ||
           program.instructions()[index(*std::prev(place))].message != row.message;
}

bool waits_only_for_earlier_rounds(const Program& program, std::int32_t row,
                                   const std::vector<std::int32_t>& besides) {
    return std::ranges::all_of(program.waits_of(row), [&](std::int32_t wait) {
        return program.round_of(wait) < program.round_of(row) || std::ranges::count(besides, wait) > 0;
    });
}

/// The receives that fill the slots of a fold, if these can be windows; otherwise none.
std::vector<std::int32_t> receives_before(const Program& program, std::int32_t fold,
                                          const std::vector<Uses>& uses) {
    std::vector<std::int32_t> receives;
    const auto waits = program.waits_of(fold);
    for (const auto& home : program.operands_of(program.instructions()[index(fold)])) {
        if (!is_slot(home)) continue;
        const auto& [receive, others] = uses[index(home.number)];
        if (receive == none || others != 1 || std::ranges::count(waits, receive) == 0) return {};
        if (program.round_of(receive) != program.round_of(fold) || !begins_message(program, receive))
            return {};
        if (!waits_only_for_earlier_rounds(program, receive, {})) return {};
        receives.push_back(receive);
    }
    if (!waits_only_for_earlier_rounds(program, fold, receives)) return {};
    return receives;
}

}  // namespace

Windows::Windows(const Program& program)
    : fold_of_slot(program.slots().size(), none), fold_behind(program.instructions().size(), none) {
    const auto uses = uses_of_slots(program);
    for (const auto row : program.locals()) {
        if (program.instructions()[index(row)].kind != Kind::fold) continue;
        for (const auto receive : receives_before(program, row, uses)) {
            fold_of_slot[index(program.instructions()[index(receive)].target.number)] = row;
            fold_behind[index(receive)] = row;
        }
    }
}

}  // namespace unisono
