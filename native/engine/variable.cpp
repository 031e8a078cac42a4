#include "engine/variable.hpp"

#include <mutex>

#include "engine/lane.hpp"

namespace unisono::engine {

void Variable::grant(Mode mode) {
    // A run goes on also if all of it were through for a moment: what is pushed decides, not when.
    if (mode == Mode::accumulate && mode_ != Mode::accumulate) before_run_ = failure_;
    mode_ = mode;
    ++active_;
}

bool Variable::append(Access& access) {
    const std::lock_guard lock(lock_);
    access.next = nullptr;
    if (first_ == nullptr && may_join(access.mode)) {
        grant(access.mode);
        return true;
    }
    (first_ == nullptr ? first_ : last_->next) = &access;
    last_ = &access;
    return false;
}

Access* Variable::release(const Access& access, const FailurePtr& failure, bool heals) {
    const std::lock_guard lock(lock_);
    if (heals)
        failure_ = nullptr;
    else if (access.mode != Mode::read && failure)
        failure_ = first_of(failure_, failure);
    if (--active_ > 0 || first_ == nullptr) return nullptr;
    Access* const granted = first_;
    Access* end = granted;
    grant(end->mode);
    while (end->next != nullptr && may_join(end->next->mode)) {
        end = end->next;
        grant(end->mode);
    }
    first_ = end->next;
    end->next = nullptr;
    return granted;
}

const std::shared_ptr<Lane>& Variable::turn() {
    if (!turn_) turn_ = std::make_shared<Lane>(name_, 1);
    return turn_;
}

}  // namespace unisono::engine
