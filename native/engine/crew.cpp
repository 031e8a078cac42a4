#include "engine/crew.hpp"

#include <thread>

namespace unisono::engine {

namespace {

/// As long as a thread of Python's keeps the interpreter that others want.
constexpr auto longest_hold = std::chrono::milliseconds(5);

}  // namespace

thread_local Crew* Crew::of_this_thread = nullptr;
thread_local Crew::Member* Crew::this_member = nullptr;
thread_local bool Crew::inside = false;

Crew::Crew(int threads, Interpreter* interpreter, Execute execute)
    : threads_(threads), interpreter_(interpreter), execute_(std::move(execute)) {
    for (int i = 0; i < most; ++i) members_[static_cast<std::size_t>(i)].number = i;
}

void Crew::start(const std::shared_ptr<void>& keep) {
    {
        const std::lock_guard lock(mutex_);
        keep_ = keep;
    }
    for (int i = 0; i < threads_; ++i) hire();
}

bool Crew::hire() {
    const std::lock_guard lock(mutex_);
    auto keep = keep_.lock();
    if (!keep) return false;
    for (int i = 0; i < most; ++i) {
        Member& member = members_[static_cast<std::size_t>(i)];
        if (member.taken) continue;
        std::thread([this, keep, &member]() mutable {
            work(member);
            leave(member);
            keep.reset();  // the last of us ends the engine
        }).detach();
        // Nothing of it if there can be no thread. A new one needs our lock before it can leave.
        member.taken = true;
        ++hired_;
        used_ = std::max(used_.load(), i + 1);
        return true;
    }
    return false;
}

void Crew::leave(Member& me) {
    if (interpreter_ != nullptr) interpreter_->forget_thread();
    const std::lock_guard lock(mutex_);
    me.taken = false;
    --hired_;
    left_.notify_all();
}

void Crew::submit(Operation& operation, bool next_here) {
    const bool is_ours = of_this_thread == this;
    const bool for_interpreter = operation.body->needs_interpreter();
    if (for_interpreter)
        python_.put(operation);
    else if (is_ours && operation.priority == 0)
        this_member->deque.put(operation);
    else
        native_.put(operation);
    if (is_ours && next_here && for_interpreter == inside) return;
    if (!for_interpreter || !at_door_) sleepers_.wake_one();
}

Operation* Crew::next(Member& me) {
    if (auto* const urgent = native_.take(1)) return urgent;
    if (auto* const own = me.deque.take()) return own;
    if (auto* const first = native_.take(0)) return first;
    if (auto* const other = stolen(me)) return other;
    return python_is_next() ? nullptr : native_.take();
}

/// Nobody is at its door, and what waits there comes before what is for all.
bool Crew::python_is_next() const { return !at_door_ && python_.best() > native_.best(); }

Operation* Crew::stolen(const Member& me) {
    const int used = used_;
    for (int i = 0; i < used; ++i) {
        Member& other = members_[static_cast<std::size_t>(i)];
        if (&other == &me) continue;
        while (!other.deque.empty())
            if (auto* const operation = other.deque.steal()) return operation;
    }
    return nullptr;
}

bool Crew::wants_interpreter() const {
    return interpreter_ != nullptr && !at_door_ && (!python_.empty() || !interpreter_->is_tidy());
}

bool Crew::has_work() const {
    if (!native_.empty() || wants_interpreter()) return true;
    const int used = used_;
    for (int i = 0; i < used; ++i)
        if (!members_[static_cast<std::size_t>(i)].deque.empty()) return true;
    return false;
}

bool Crew::is_surplus() {
    int surplus = surplus_;
    while (surplus > 0)
        if (surplus_.compare_exchange_weak(surplus, surplus - 1)) return true;
    return false;
}

void Crew::work(Member& me) {
    of_this_thread = this;
    this_member = &me;
    bool was_woken = false;
    for (;;) {
        if (surplus_ > 0 && is_surplus()) break;
        const bool is_urgent = python_.best() > 0 && python_is_next();
        Operation* const operation = is_urgent ? nullptr : next(me);
        const bool enters = operation == nullptr && wants_interpreter() && !at_door_.exchange(true);
        if (operation != nullptr || enters) {
            if (std::exchange(was_woken, false) && has_work()) sleepers_.wake_one();
            if (operation != nullptr)
                execute_(*operation);
            else
                use_interpreter(me);
            continue;
        }
        was_woken = false;
        const auto seen = sleepers_.prepare();
        if (has_work() || surplus_ > 0) {
            sleepers_.stay_up();
            continue;
        }
        if (stopping_) {
            sleepers_.stay_up();
            break;
        }
        sleepers_.sleep(seen);
        was_woken = true;
    }
    while (auto* const operation = me.deque.take()) native_.put(*operation);
    sleepers_.wake_one();  // for these, and for what we were woken for; not before: nobody finds what we hold
    of_this_thread = nullptr;
    this_member = nullptr;
}

void Crew::use_interpreter(Member& me) {
    interpreter_->enter();
    inside = true;
    at_door_ = false;
    const auto begun = std::chrono::steady_clock::now();
    auto operations = 0u;
    while (auto* const operation = python_.take()) {
        if (operations == 0 && !python_.empty()) sleepers_.wake_one();  // to wait at the door
        execute_(*operation);
        if (!interpreter_->is_tidy()) interpreter_->tidy();
        if (!me.deque.empty() || native_.best() > python_.best()) break;
        if (++operations % 16 == 0 && std::chrono::steady_clock::now() - begun > longest_hold) break;
    }
    if (!interpreter_->is_tidy()) interpreter_->tidy();
    inside = false;
    interpreter_->leave();
    if (!python_.empty()) sleepers_.wake_one();  // we may find other things to do
}

Crew::Replacement::Replacement(Crew& crew) : crew_(&crew) {
    if (!crew.hire()) crew_ = nullptr;
}

Crew::Replacement::~Replacement() {
    if (crew_ == nullptr) return;
    ++crew_->surplus_;
    crew_->sleepers_.wake_one();
}

void Crew::stop() {
    stopping_ = true;
    sleepers_.wake_all();
}

bool Crew::gone_by(std::chrono::steady_clock::time_point time) {
    std::unique_lock lock(mutex_);
    return left_.wait_until(lock, time, [this] { return hired_ == 0; });
}

}  // namespace unisono::engine
