// Who waits for whom, and whether that could ever end.

#include <algorithm>
#include <set>

#include "engine/engine.hpp"

namespace unisono::engine {

namespace {

constexpr auto between_looks = std::chrono::milliseconds(20);

/// Who waits inside, of all engines: what one waits for may be another's, and that one may wait for the
/// first.
struct WaitsInside {
    Origin origin;
    std::mutex mutex;
    Waits waits;
};

/// A forked child begins anew: nobody of those waits there, and nobody may give the lock back.
WaitsInside& waits_inside() {
    static std::atomic<WaitsInside*> known = new WaitsInside;
    auto* now = known.load();
    while (!now->origin.is_here()) {
        auto fresh = std::make_unique<WaitsInside>();
        if (known.compare_exchange_strong(now, fresh.get())) return *fresh.release();
    }
    return *now;
}

}  // namespace

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
    Inside(Engine& engine, Operation& self, Awaited awaited) : self_(self), awaited_(awaited) {
        const std::lock_guard lock(all_.mutex);
        all_.waits[&self] = {&engine, awaited};
        require_an_end();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    ~Inside() {
        if (!all_.origin.is_here()) return;
        const std::lock_guard lock(all_.mutex);
        all_.waits.erase(&self_);
    }

    /// What comes later can be in the way only in a lane: by its priority, or because it came there first.
    /// So this is called now and then, ever more rarely.
    void look_again() {
        if (++looks_ < next_look_) return;
        next_look_ *= 2;
        const std::lock_guard lock(all_.mutex);
        require_an_end();
    }

  private:
    /// Who is told waits no longer: what waited for that need not be told.
    void require_an_end() {
        try {
            if (!is_sure_to_end(awaited_.operation) && never_ends())
                throw NeverEnds("it would wait for itself: what it waits for cannot end before it does");
        } catch (...) {
            all_.waits.erase(&self_);
            throw;
        }
    }

    /// It needs a thread at most. Most of what is awaited is so, and the others need not be looked at.
    bool is_sure_to_end(const Operation* operation) const {
        if (operation == nullptr) return false;
        const auto state = operation->state.load(std::memory_order_acquire);
        if (state == State::running) return !all_.waits.contains(operation);
        return operation->is_over() || (operation->missing.load(std::memory_order_acquire) == 0 &&
                                        (operation->demand_count == 0 || operation->has_lanes));
    }

    /// An operation that ends meanwhile was not stuck, and what is stuck cannot end: so what is found is
    /// true. Who holds the lock of one engine does not ask for that of another, except here, one at a time.
    bool never_ends() const {
        std::set<Engine*> engines;
        for (const auto& [operation, waiting] : all_.waits)
            engines.insert({waiting.engine, waiting.awaited.engine});
        std::vector<std::unique_lock<std::mutex>> locks;
        Moment moment;
        for (auto* const engine : engines) {
            locks.emplace_back(engine->pushing_);
            engine->add_to(moment);
        }
        return Stuck(moment, all_.waits, awaited_).contains(awaited_);
    }

    WaitsInside& all_ = waits_inside();
    Operation& self_;
    Awaited awaited_;
    int looks_ = 0;
    int next_look_ = 4;
};

void Engine::add_to(Moment& moment) {
    pool_.for_each([&](Operation& each) {
        if (each.is_over()) return;
        moment.operations.emplace_back(&each, this);
        for (const auto& demand : std::span(each.demands.get(), each.demand_count))
            if (!moment.parked.contains(demand.lane.get()))
                moment.parked.emplace(demand.lane.get(), lanes_.parked(*demand.lane));
    });
}

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
    return wait_here(&operation, [&] { return end_of(operation); }, look_up);
}

bool Engine::wait_until_idle(const LookUp& look_up) {
    origin_.require("this engine");
    if (current() != nullptr) throw NeverEnds("it would wait for itself, which is under way, too");
    return wait_here(nullptr, [&] { return idleness(); }, look_up);
}

/// Nothing if it is so.
std::shared_ptr<Event> Engine::idleness() {
    const auto event = std::make_shared<Event>();
    const std::lock_guard lock(idling_);
    if (outstanding_.load(std::memory_order_acquire) == 0) return nullptr;
    idle_.push_back(event);
    return event;
}

/// If this thread runs an operation, also of another engine, it lends its place there.
bool Engine::wait_here(Operation* awaited, const Begin& begin, const LookUp& look_up) {
    auto* const self = current_of_all();
    if (self == nullptr) {
        const auto event = begin();
        return !event || sleep(*event, look_up);
    }
    Engine& lender = *of_current();
    Inside inside(lender, *self, {this, awaited});
    const auto event = begin();
    if (!event) return true;
    const Crew::Replacement replacement(lender.crew_);
    if (!replacement) throw NeverEnds("too many operations wait inside of others at once");
    return sleep(*event, [&] {
        inside.look_again();
        return look_up();
    });
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

std::vector<const Record*> Engine::logged() {
    origin_.require("this engine");
    const std::lock_guard lock(pushing_);
    std::vector<const Record*> found;
    for (const auto& record : log_) found.push_back(&record);
    return found;
}

}  // namespace unisono::engine
