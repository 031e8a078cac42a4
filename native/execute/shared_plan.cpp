#include "execute/shared_plan.hpp"

#include <algorithm>
#include <stdexcept>

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
    const auto room = tiny ? sizeof(Line::stage) : stage_bytes;
    for (const auto size : sizes)
        if (size > window * windows || size % element != 0)
            throw std::invalid_argument("a block does not fit its windows");
    for (std::size_t i = 0; i < places.size(); ++i)
        if (places[i].entry >= 0 && (may_stage || places[i].area == 2) && staged[i] > room)
            throw std::invalid_argument("a stage is too small for its blocks");
}

}  // namespace unisono
