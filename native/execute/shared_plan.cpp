#include "execute/shared_plan.hpp"

#include <algorithm>
#include <stdexcept>

#include "execute/program.hpp"
#include "transport/shm/board.hpp"

namespace unisono {

void SharedPlan::check(std::size_t stage_bytes) const {
    const auto places = program->places();
    if (sizes.size() != static_cast<std::size_t>(program->blocks()) || offsets.size() != places.size() ||
        staged.size() != places.size())
        throw std::invalid_argument("sizes and offsets do not fit the program");
    const auto element = size_of(arithmetic.dtype);
    if (windows == 0 || window % element != 0 ||
        windows * static_cast<std::uint64_t>(program->steps()) > Moment::most_steps)
        throw std::invalid_argument("windows do not fit the program");
    if (stage_turns == 0 || stage_step > stage_bytes / stage_turns)
        throw std::invalid_argument("places do not fit the stage");
    const auto room = tiny ? sizeof(Line::stage) : stage_step;
    for (const auto size : sizes)
        if (size > window * windows || size % element != 0)
            throw std::invalid_argument("a block does not fit its windows");
    const auto require_room = [&](std::int32_t number, std::int32_t block) {
        const auto i = static_cast<std::size_t>(number);
        const auto bytes = std::min(window, sizes[static_cast<std::size_t>(block)]);
        if (places[i].entry >= 0 && (may_stage || places[i].area == static_cast<std::int32_t>(Area::slot)) &&
            (staged[i] > room || bytes > room - staged[i]))
            throw std::invalid_argument("a stage is too small for its blocks");
    };
    for (const auto& each : program->instructions()) {
        if (each.kind == SharedKind::combine)
            for (const auto place : program->references(each)) require_room(place, each.block());
        if (each.kind == SharedKind::publish) require_room(each.place(), each.block());
        if (each.kind == SharedKind::fetch) require_room(each.staged(), each.block());
    }
}

}  // namespace unisono
