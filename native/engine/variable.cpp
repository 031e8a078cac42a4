#include "engine/variable.hpp"

#include <mutex>
#include <utility>

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
    access.position = positions_++;
    if (access.mode == Mode::await) return await(access);
    ++unended_;
    if (first_ == nullptr && may_join(access.mode)) {
        grant(access.mode);
        return true;
    }
    (first_ == nullptr ? first_ : last_->next) = &access;
    last_ = &access;
    return false;
}

bool Variable::await(Access& access) {
    if (unended_ == 0) {
        look(access);
        return true;
    }
    access.operation->sight(access).remaining = unended_;
    access.next = std::exchange(awaiting_, &access);
    return false;
}

/// One that was pushed after who awaits may have failed already.
void Variable::look(const Access& access) {
    if (failure_ && failure_->serial < access.operation->serial)
        access.operation->sight(access).failure = failure_;
}

Access* Variable::release(const Access& access, const FailurePtr& failure, bool heals) {
    const std::lock_guard lock(lock_);
    if (heals)
        failure_ = nullptr;
    else if (access.mode != Mode::read && failure)
        failure_ = first_of(failure_, failure);
    --unended_;
    Access* const seen = awaiting_ == nullptr ? nullptr : awaited_until(access.position);
    Access* const granted = --active_ > 0 || first_ == nullptr ? nullptr : granted_next();
    if (seen == nullptr) return granted;
    Access* last = seen;
    while (last->next != nullptr) last = last->next;
    last->next = granted;
    return seen;
}

/// A run of those that wait.
Access* Variable::granted_next() {
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

/// Those who awaited the access at that position as the last one.
Access* Variable::awaited_until(std::uint32_t position) {
    Access* found = nullptr;
    for (Access** place = &awaiting_; *place != nullptr;) {
        Access& each = **place;
        const bool is_before = static_cast<std::int32_t>(each.position - position) > 0;
        if (is_before && --each.operation->sight(each).remaining == 0) {
            *place = each.next;
            look(each);
            each.next = std::exchange(found, &each);
        } else {
            place = &each.next;
        }
    }
    return found;
}

const std::shared_ptr<Lane>& Variable::turn() {
    if (!turn_) turn_ = std::make_shared<Lane>(name_, 1);
    return turn_;
}

}  // namespace unisono::engine
