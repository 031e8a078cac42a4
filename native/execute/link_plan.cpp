#include "execute/link_plan.hpp"

#include <stdexcept>

namespace unisono {

void LinkPlan::check() const {
    const auto blocks = static_cast<std::size_t>(program->blocks());
    if (sizes.size() != blocks || in_offsets.size() != blocks || out_offsets.size() != blocks)
        throw std::invalid_argument("sizes and offsets do not fit the program's blocks");
}

}  // namespace unisono
