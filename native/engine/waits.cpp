// Who waits for whom, and whether that could ever end.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "engine/engine.hpp"

namespace unisono::engine {

namespace {

constexpr auto between_looks = std::chrono::milliseconds(20);

/// Which operations never end, given that one of them does not. It is what they find before them in the
/// queues of their variables, or in their lanes, or what they wait for inside. All that has not ended is
/// looked at in the order of pushes, until no more is found: dependencies point backwards, so there are as
/// many rounds as waits and lanes that point forwards.
class Stuck {
  public:
    Stuck(std::vector<Operation*> all, const std::map<Operation*, Operation*>& waits, Operation& self)
        : all_(std::move(all)), waits_(waits) {
        std::ranges::sort(all_, {}, &Operation::serial);
        add(self);
        while (std::exchange(found_, false)) look();
    }

    bool contains(Operation& operation) const { return stuck_.contains(&operation); }

  private:
    struct Before {
        bool reads = false, mutates = false, accumulates = false, accumulates_now = false;
        Mode last = Mode::mutate;
    };

    void look() {
        std::unordered_map<const Variable*, Before> before;
        for (auto* const operation : all_) {
            bool never = false;
            for (const auto& access : operation->accesses()) {
                auto& seen = before[access.variable];
                if (access.mode != Mode::accumulate || seen.last != Mode::accumulate)
                    seen.accumulates |= std::exchange(seen.accumulates_now, false);
                seen.last = access.mode;
                never |= seen.mutates || (access.mode != Mode::read && seen.reads) || seen.accumulates;
            }
            if (!stuck_.contains(operation) &&
                (never || lacks_a_lane(*operation) || waits_for_one(*operation)))
                add(*operation);
            if (stuck_.contains(operation))
                for (const auto& access : operation->accesses()) note(before[access.variable], access.mode);
        }
    }

    static void note(Before& seen, Mode mode) {
        (mode == Mode::read ? seen.reads : mode == Mode::mutate ? seen.mutates : seen.accumulates_now) = true;
    }

    bool waits_for_one(Operation& operation) const {
        const auto found = waits_.find(&operation);
        return found != waits_.end() && stuck_.contains(found->second);
    }

    bool lacks_a_lane(const Operation& operation) const {
        if (operation.state.load(std::memory_order_relaxed) == State::running) return false;  // has them
        return std::ranges::any_of(
            std::span(operation.demands.get(), operation.demand_count), [&](auto& each) {
                const auto found = held_.find(each.lane.get());
                return found != held_.end() && found->second + each.amount > each.lane->capacity();
            });
    }

    void add(Operation& operation) {
        stuck_.insert(&operation);
        found_ = true;
        if (operation.state.load(std::memory_order_relaxed) != State::running) return;
        for (const auto& [lane, amount] : std::span(operation.demands.get(), operation.demand_count))
            held_[lane.get()] += amount;
    }

    std::vector<Operation*> all_;
    const std::map<Operation*, Operation*>& waits_;
    std::unordered_set<Operation*> stuck_;
    std::unordered_map<const Lane*, std::uint64_t> held_;  // for ever
    bool found_ = false;
};

}  // namespace

/// An operation that ends meanwhile was not stuck, and what is stuck cannot end: so what is found is true.
bool Engine::never_ends(Operation& self, Operation& awaited) {
    std::vector<Operation*> all;
    pool_.for_each([&](Operation& each) {
        if (!each.is_over()) all.push_back(&each);
    });
    return Stuck(std::move(all), waits_inside_, self).contains(awaited);
}

bool Engine::sleep(Event& event, const LookUp& look_up) {
    while (!event.wait_until(std::chrono::steady_clock::now() + between_looks)) {
        if (!look_up()) return false;
        origin_.require("this engine");
    }
    return true;
}

/// That an operation waits inside is known to others who may want to wait for it.
class Engine::Inside {
  public:
    Inside(Engine& engine, Operation& self, Operation& awaited) : engine_(engine), self_(self) {
        const std::lock_guard lock(engine.pushing_);
        if (engine.never_ends(self, awaited))
            throw NeverEnds("it would wait for itself: what it waits for cannot end before it does");
        engine.waits_inside_[&self] = &awaited;
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() {
        const std::lock_guard lock(engine_.pushing_);
        engine_.waits_inside_.erase(&self_);
    }

  private:
    Engine& engine_;
    Operation& self_;
};

/// Nothing if it is over.
std::shared_ptr<Event> Engine::end_of(Operation& operation) {
    auto waiter = std::make_unique<Waiter>();
    waiter->next = operation.waiters.load(std::memory_order_acquire);
    waiter->event = std::make_shared<Event>();
    const auto event = waiter->event;
    // Once it is over, what stands there is no waiter; and it is over before that stands there.
    while (!operation.is_over())
        if (operation.waiters.compare_exchange_weak(waiter->next, waiter.get(), std::memory_order_acq_rel)) {
            waiter.release();
            return event;
        }
    return nullptr;
}

bool Engine::wait(Operation& operation, const LookUp& look_up) {
    origin_.require("this engine");
    if (operation.is_over()) return true;
    auto* const self = current();
    if (self == nullptr) {
        const auto event = end_of(operation);
        return !event || sleep(*event, look_up);
    }
    const Inside inside(*this, *self, operation);
    const auto event = end_of(operation);
    if (!event) return true;
    const Crew::Replacement replacement(crew_);
    if (!replacement) throw NeverEnds("too many operations wait inside of others at once");
    return sleep(*event, look_up);
}

bool Engine::wait_until_idle(const LookUp& look_up) {
    origin_.require("this engine");
    if (current() != nullptr) throw NeverEnds("it would wait for itself, which is under way, too");
    const auto event = std::make_shared<Event>();
    {
        const std::lock_guard lock(idling_);
        if (outstanding_.load(std::memory_order_acquire) == 0) return true;
        idle_.push_back(event);
    }
    return sleep(*event, look_up);
}

std::vector<Engine::Live> Engine::live() {
    origin_.require("this engine");
    const std::lock_guard lock(pushing_);
    std::vector<Live> found;
    pool_.for_each([&](Operation& each) {
        if (each.is_over() || each.body->is_immediate()) return;
        Live live{.serial = each.serial, .name = name_of(each), .site = each.site, .priority = each.priority};
        live.is_running = each.state.load(std::memory_order_relaxed) == State::running;
        live.may_run = each.missing.load(std::memory_order_relaxed) == 0;
        for (const auto& access : each.accesses())
            live.touches.push_back({access.variable->number(), access.mode, access.variable->name()});
        found.push_back(std::move(live));
    });
    std::ranges::sort(found, {}, &Live::serial);
    return found;
}

void Engine::read_log(const std::function<void(const Record&)>& read) {
    origin_.require("this engine");
    const std::lock_guard lock(pushing_);
    for (const auto& record : log_) read(record);
}

}  // namespace unisono::engine
