// Random native programs: what they compute, and in which order, is as if they had run one after the other.

#include "engine/engine.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <thread>

#include "expect.hpp"

using namespace unisono::engine;

namespace {

using Work = std::function<void()>;

FailurePtr failure_of(const Operation& operation) {
    try {
        (*static_cast<Work*>(operation.subject))();
        return nullptr;
    } catch (const std::exception&) {
        return std::make_shared<Failure>(Failure{operation.serial, std::current_exception(), nullptr});
    }
}

/// Runs a function of C++.
class Function final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override {
        engine.finish(operation, failure_of(operation), true);
    }
    const char* name() const override { return "function"; }
};

/// Is finished by another thread.
class Elsewhere final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override {
        std::thread([keep = engine.shared_from_this(), &operation] {
            keep->finish(operation, failure_of(operation));
        }).detach();
    }
    const char* name() const override { return "elsewhere"; }
};

const Function function;
const Elsewhere elsewhere;

bool forever() { return true; }

void dispose(Engine& engine, Operation& operation) {
    delete static_cast<Work*>(std::exchange(operation.subject, nullptr));
    engine.give_back(operation);
}

/// An engine and its variables, which ends with nothing under way.
struct World {
    std::shared_ptr<Engine> engine;
    std::vector<Variable*> variables;

    World(int threads, std::size_t count) : engine(Engine::make({.threads = threads, .dispose = dispose})) {
        for (std::size_t i = 0; i < count; ++i) variables.push_back(&engine->variable(""));
    }
    ~World() {
        expect(engine->wait_until_idle(forever), "an idle engine");
        for (auto* variable : variables) engine->forget(*variable);
        expect(engine->close(std::chrono::steady_clock::now() + std::chrono::seconds(30)),
               "its threads to end");
    }
    Operation& push(Work work, const std::vector<Use>& uses, std::vector<Demand> demands = {},
                    int priority = 0, const Body& body = function) {
        return engine->push({.body = &body,
                             .subject = new Work(std::move(work)),
                             .uses = uses,
                             .demands = demands,
                             .priority = priority});
    }
    void drop(Operation& operation) { engine->forget(operation); }
    FailurePtr outcome(Operation& operation) {
        expect(engine->wait(operation, forever), "its end");
        auto failure = operation.failure;
        engine->forget(operation);
        return failure;
    }
};

/// Of one variable: no conflicting accesses at once.
struct Cell {
    std::uint64_t value = 0;
    std::atomic<int> readers = 0, writers = 0, adders = 0;
};

/// What one operation after the other leaves behind of a variable. Failures are serial numbers, or 0.
struct Expected {
    std::uint64_t value = 0, failure = 0, before_run = 0;
    Mode last = Mode::mutate;

    std::uint64_t seen(Mode mode) {
        if (mode == Mode::accumulate && last != Mode::accumulate) before_run = failure;
        last = mode;
        return mode == Mode::accumulate ? before_run : failure;
    }
    void heal() { last = Mode::mutate, failure = 0; }
};

std::uint64_t first_failure(std::uint64_t one, std::uint64_t other) {
    return one == 0 || (other != 0 && other < one) ? other : one;
}

struct Place {
    Variable* variable;
    Cell cell = {};
    Expected expected = {};
};

struct Step {
    std::size_t number;
    std::vector<Place*> reads = {}, mutates = {}, accumulates = {};
    std::uint64_t amount = 0;  // of the lane
    bool throws = false, nests = false;

    bool writes() const { return !mutates.empty() || !accumulates.empty(); }
};

/// Operations of all modes, with a lane and priorities, some of which throw, push others, or are cancelled;
/// variables that are forgotten while they are used.
class Program {
  public:
    explicit Program(unsigned seed) : random_(seed), world_(static_cast<int>(1 + pick(4)), 0) {
        for (std::size_t count = 1 + pick(40); count > 0; --count) add_place();
        lane_ = std::make_shared<Lane>("lane", 1 + pick(3));
    }

    void run() {
        for (std::size_t number = 1; number <= 400; ++number) {
            if (pick(30) == 0) replace_a_place();
            if (pick(30) == 0) heal();
            if (pick(40) == 0) await();
            push(number);
        }
        for (const auto& [operation, failure] : kept_) expect_failure(*operation, failure);
        expect(world_.engine->wait_until_idle(forever), "an idle engine");
        for (const auto& each : places_)
            expect(each.cell.value == each.expected.value, "what the serial order gives");
        expect(nested_ == expected_nested_, "what was pushed inside to run");
        for (const auto* each : alive_) world_.variables.push_back(each->variable);
    }

  private:
    std::size_t pick(std::uint64_t n) { return static_cast<std::size_t>(random_() % n); }

    void add_place() { alive_.push_back(&places_.emplace_back(&world_.engine->variable(""))); }

    void replace_a_place() {
        auto& old = alive_[pick(alive_.size())];
        old->variable->deleted = true;
        world_.engine->forget(*old->variable);
        std::swap(old, alive_.back());
        alive_.pop_back();
        add_place();
    }

    std::vector<Use> some(Mode mode) {
        std::vector<Use> uses;
        for (auto* const each : alive_)
            if (pick(2) == 0) uses.push_back({each->variable, mode});
        return uses;
    }

    bool is_in(const std::vector<Use>& uses, const Place& place) const {
        return std::ranges::any_of(uses, [&](const Use& each) { return each.variable == place.variable; });
    }

    void heal() {
        const auto uses = some(Mode::mutate);
        world_.drop(world_.engine->heal(uses));
        for (auto* const each : alive_)
            if (is_in(uses, *each)) each->expected.heal();
    }

    void await() {
        const auto uses = some(Mode::await);
        std::uint64_t failure = 0;
        for (const auto* const each : alive_)
            if (is_in(uses, *each)) failure = first_failure(failure, each->expected.failure);
        expect_failure(world_.engine->mark(uses), failure);
    }

    void expect_failure(Operation& operation, std::uint64_t expected) {
        const auto failure = world_.outcome(operation);
        expect((failure ? failure->serial : 0) == expected, "the first failure of what it depends on");
    }

    void push(std::size_t number) {
        Step step{.number = number};
        std::vector<Use> uses;
        for (auto* const each : alive_) {
            if (pick(alive_.size()) >= 3) continue;
            const auto mode = static_cast<Mode>(pick(3));
            uses.push_back({each->variable, mode});
            (mode == Mode::read     ? step.reads
             : mode == Mode::mutate ? step.mutates
                                    : step.accumulates)
                .push_back(each);
        }
        step.throws = pick(40) == 0;
        step.nests = pick(20) == 0;
        std::vector<Demand> demands;
        if (pick(4) == 0) {
            step.amount = 1 + pick(lane_->capacity());
            demands.push_back({lane_, step.amount});
        }
        const bool is_cancelled = !step.writes() && !step.nests && pick(3) == 0;
        const auto priority = pick(5) == 0 ? static_cast<int>(pick(5)) - 2 : 0;
        const Body& body = pick(20) == 0 ? static_cast<const Body&>(elsewhere) : function;
        auto& operation = world_.push([this, step] { perform(step); }, uses, demands, priority, body);
        const auto failure = foresee(step, operation.serial);
        if (is_cancelled) world_.engine->cancel(operation);
        if (!is_cancelled && pick(4) == 0)
            kept_.emplace_back(&operation, failure);
        else
            world_.drop(operation);
    }

    /// How it fails, if it is not cancelled.
    std::uint64_t foresee(const Step& step, std::uint64_t serial) {
        std::uint64_t failure = 0, sum = step.number;
        for (auto* each : step.reads) failure = first_failure(failure, each->expected.seen(Mode::read));
        for (auto* each : step.mutates) failure = first_failure(failure, each->expected.seen(Mode::mutate));
        for (auto* each : step.accumulates)
            failure = first_failure(failure, each->expected.seen(Mode::accumulate));
        if (failure == 0) {
            for (const auto* each : step.reads) sum += each->expected.value;
            for (auto* each : step.mutates) each->expected.value = each->expected.value * 31 + sum;
            for (auto* each : step.accumulates) each->expected.value += sum;
            expected_nested_ += step.nests ? 1 : 0;
            failure = step.throws ? serial : 0;
        }
        for (const auto* places : {&step.mutates, &step.accumulates})
            for (auto* each : *places)
                each->expected.failure = first_failure(each->expected.failure, failure);
        return failure;
    }

    void perform(const Step& step) {
        expect(in_lane_.fetch_add(step.amount) + step.amount <= lane_->capacity(), "room in the lane");
        std::uint64_t total = step.number;
        for (auto* const each : step.reads) {
            Cell& cell = each->cell;
            ++cell.readers;
            expect(cell.writers == 0 && cell.adders == 0, "nobody who writes while somebody reads");
            total += cell.value;
        }
        for (auto* const each : step.mutates) {
            Cell& cell = each->cell;
            expect(++cell.writers == 1 && cell.readers == 0 && cell.adders == 0, "one who writes");
            cell.value = cell.value * 31 + total;
        }
        for (auto* const each : step.accumulates) {
            Cell& cell = each->cell;
            expect(++cell.adders == 1 && cell.readers == 0 && cell.writers == 0, "one who adds");
            cell.value += total;
        }
        if (step.nests) nest(step.number);
        if (step.number % 7 == 0) std::this_thread::yield();
        for (auto* const each : step.reads) --each->cell.readers;
        for (auto* const each : step.mutates) --each->cell.writers;
        for (auto* const each : step.accumulates) --each->cell.adders;
        in_lane_.fetch_sub(step.amount);
        if (step.throws) throw std::runtime_error("bad");
    }

    /// On a variable that is forgotten before they have run; every other time, the last one is awaited.
    void nest(std::size_t number) {
        auto& inner = world_.engine->variable("");
        auto digits = std::make_shared<int>(0);
        for (int i = 1; i <= 3; ++i) {
            auto& operation = world_.push(
                [this, digits, i] {
                    *digits = *digits * 10 + i;
                    if (*digits == 123) ++nested_;
                },
                {{&inner, Mode::mutate}});
            if (i == 3 && number % 2 == 0)
                expect(!world_.outcome(operation), "no failure of what was pushed inside");
            else
                world_.drop(operation);
        }
        world_.engine->forget(inner);
    }

    std::mt19937 random_;
    std::deque<Place> places_;  // also those that were replaced
    std::vector<Place*> alive_;
    std::shared_ptr<Lane> lane_;
    std::atomic<std::uint64_t> in_lane_ = 0;
    std::atomic<int> nested_ = 0;
    int expected_nested_ = 0;
    std::vector<std::pair<Operation*, std::uint64_t>> kept_;
    World world_;  // the last: what it runs uses all of the above
};

void random_programs_equal_the_serial_order(unsigned seed) { Program(seed).run(); }

void a_failure_reaches_what_depends_on_it_and_nothing_else() {
    World world(2, 4);
    auto& [a, b, c, d] = *reinterpret_cast<std::array<Variable*, 4>*>(world.variables.data());
    int ran = 0;
    auto& bad = world.push([] { throw std::runtime_error("bad"); }, {{a, Mode::mutate}});
    auto& copy = world.push([&] { ++ran; }, {{a, Mode::read}, {b, Mode::mutate}});
    auto& other = world.push([&] { ++ran; }, {{c, Mode::mutate}});
    auto& both = world.push([&] { ++ran; }, {{b, Mode::read}, {c, Mode::read}, {d, Mode::accumulate}});
    const auto serial = bad.serial;
    expect(world.outcome(bad)->serial == serial, "its own failure");
    expect(world.outcome(copy)->serial == serial, "the failure of what it reads");
    expect(world.outcome(both)->serial == serial, "that of what it reads in the end");
    expect(!world.outcome(other), "no failure of others");
    expect(ran == 1, "one that ran");
    const Use all[] = {{a, Mode::mutate}, {b, Mode::mutate}, {d, Mode::mutate}};
    world.drop(world.engine->heal(all));
    expect(!world.outcome(world.push([&] { ++ran; }, {{a, Mode::read}, {b, Mode::read}, {d, Mode::read}})),
           "none after that");
    expect(ran == 2, "two that ran");
    expect(world.engine->take_failure()->serial == serial, "the first failure, for who asks");
}

void those_that_accumulate_do_not_see_each_others_failures() {
    World world(2, 1);
    auto* const a = world.variables[0];
    int sum = 0;
    auto& bad = world.push([] { throw std::runtime_error("bad"); }, {{a, Mode::accumulate}});
    world.outcome(bad);
    expect(!world.outcome(world.push([&] { ++sum; }, {{a, Mode::accumulate}})), "one of the same run to run");
    expect(world.outcome(world.push([&] { ++sum; }, {{a, Mode::read}})) != nullptr,
           "who reads to hear of it");
    expect(sum == 1, "one that ran");
}

void a_long_chain_fails_without_recursion() {
    World world(2, 1);
    auto* const a = world.variables[0];
    world.drop(world.push([] { throw std::runtime_error("bad"); }, {{a, Mode::mutate}}));
    Operation* last = nullptr;
    for (int i = 0; i < 200'000; ++i) {
        if (last != nullptr) world.drop(*last);
        last = &world.push([] { expect(false, "nothing to run"); }, {{a, Mode::mutate}});
    }
    expect(world.outcome(*last)->serial == 1, "the first failure");
}

void what_is_cancelled_does_not_run() {
    World world(1, 1);
    auto* const a = world.variables[0];
    std::atomic<bool> go = false;
    bool ran = false;
    auto& gate = world.push([&] { go.wait(false); }, {{a, Mode::mutate}});
    auto& next = world.push([&] { ran = true; }, {{a, Mode::mutate}});
    expect(world.engine->cancel(next) && !world.engine->cancel(next), "to be cancelled once");
    go = true;
    go.notify_all();
    expect(!world.outcome(gate), "no failure of the other");
    expect(world.outcome(next)->cancelled, "to be cancelled");
    expect(!ran, "not to run");
}

void what_is_cancelled_leaves_the_queue_of_a_lane_at_once() {
    World world(2, 0);
    const auto lane = std::make_shared<Lane>("memory", 100);
    std::atomic<bool> begun = false, go = false;
    auto& holder = world.push(
        [&] {
            begun = true;
            begun.notify_all();
            go.wait(false);
        },
        {}, {{lane, 50}});
    begun.wait(false);
    auto& large = world.push([] {}, {}, {{lane, 60}});
    auto& small = world.push([] {}, {}, {{lane, 50}});
    expect(world.engine->cancel(large), "to be cancelled");
    expect(world.outcome(large)->cancelled, "it to be over, though the lane is full");
    expect(!world.outcome(small), "who was behind it to run");
    go = true;
    go.notify_all();
    expect(!world.outcome(holder), "no failure of the other");
}

template <class Wait>
bool never_ends(Wait wait) {
    try {
        wait();
        return false;
    } catch (const NeverEnds&) {
        return true;
    }
}

void a_wait_inside_runs_others_or_throws() {
    World world(1, 3);
    auto* const a = world.variables[0];
    auto* const b = world.variables[1];
    int order = 0;
    const auto turn = std::make_shared<Lane>("turn", 1);
    auto& outer = world.push(
        [&] {
            auto& inner = world.push([&] { order = order * 10 + 1; }, {{b, Mode::mutate}});
            expect(!world.outcome(inner), "what was pushed inside to run, though there is one thread");
            order = order * 10 + 2;
            auto& self = world.push([] {}, {{a, Mode::read}});
            expect(never_ends([&] { world.engine->wait(self, forever); }),
                   "one that waits for this one to throw");
            world.drop(self);
            auto& laned = world.push([] {}, {}, {{turn, 1}});
            expect(never_ends([&] { world.engine->wait(laned, forever); }),
                   "one that needs our lane to throw");
            world.drop(laned);
            expect(never_ends([&] { world.engine->wait_until_idle(forever); }), "a wait for all to throw");
        },
        {{a, Mode::mutate}}, {{turn, 1}});
    expect(!world.outcome(outer), "no failure");
    expect(order == 12, "the inner one first");
}

void behind_one_that_never_fits_nobody_is_served_nor_waited_for() {
    World world(2, 0);
    const auto lane = std::make_shared<Lane>("memory", 100);
    auto& outer = world.push(
        [&] {
            auto& large = world.push([] {}, {}, {{lane, 60}});
            auto& small = world.push([] {}, {}, {{lane, 10}});
            expect(never_ends([&] { world.engine->wait(small, forever); }),
                   "one behind it in the lane to throw");
            world.drop(large);
            world.drop(small);
            auto& urgent = world.push([] {}, {}, {{lane, 10}}, 1);
            expect(!world.outcome(urgent), "one that comes before it to run");
        },
        {}, {{lane, 50}});
    expect(!world.outcome(outer), "no failure");
}

void a_wait_is_told_also_of_what_got_in_its_way_later() {
    World world(2, 1);
    const auto memory = std::make_shared<Lane>("memory", 100);
    std::atomic<bool> go = false;
    bool told = false;
    auto& gate = world.push([&] { go.wait(false); }, {{world.variables[0], Mode::mutate}});
    auto& outer = world.push(
        [&] {
            auto& awaited = world.push([] {}, {{world.variables[0], Mode::mutate}}, {{memory, 10}});
            world.drop(world.push([] {}, {}, {{memory, 60}}, 1));
            std::jthread later([&] {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
                go = true;
                go.notify_all();
            });
            told = never_ends([&] { world.engine->wait(awaited, forever); });
            world.drop(awaited);
        },
        {}, {{memory, 50}});
    expect(!world.outcome(outer) && !world.outcome(gate), "no failure");
    expect(told, "it to throw");
}

void a_wait_for_another_engine_lends_the_place_and_sees_circles() {
    World one(1, 0), other(1, 1);
    bool told = false;
    auto& outer = one.push(
        [&] {
            auto& inner = other.push(
                [&] {
                    auto& deep = one.push([] {}, {});
                    expect(!one.outcome(deep), "what needs the thread of the outermost to run");
                    told = never_ends([&] { one.engine->wait_until_idle(forever); });
                },
                {{other.variables[0], Mode::mutate}});
            expect(!other.outcome(inner), "the inner one to end");
        },
        {});
    expect(!one.outcome(outer), "no failure");
    expect(told, "a wait for all of the engine that waits for this one to throw");
}

void who_awaits_a_variable_keeps_nobody() {
    World world(2, 1);
    auto* const a = world.variables[0];
    std::atomic<bool> go = false;
    auto& first = world.push([&] { go.wait(false); }, {{a, Mode::read}});
    const Use use[] = {{a, Mode::await}};
    auto& mark = world.engine->mark(use);
    expect(!world.outcome(world.push([] {}, {{a, Mode::read}})), "one that reads to run meanwhile");
    expect(!mark.is_over(), "those before it to be awaited");
    auto& bad = world.push([] { throw std::runtime_error("bad"); }, {{a, Mode::mutate}});
    go = true;
    go.notify_all();
    expect(!world.outcome(mark), "nothing to be seen of what came later");
    expect(!world.outcome(first) && world.outcome(bad), "one failure");
    expect(world.outcome(world.engine->mark(use)) != nullptr, "who awaits it later to hear of that");
    world.engine->take_failure();
}

void two_that_would_wait_for_each_other_are_told() {
    World world(2, 2);
    auto* const a = world.variables[0];
    auto* const b = world.variables[1];
    std::atomic<int> begun = 0, told = 0;
    Operation *after_a = nullptr, *after_b = nullptr;
    std::atomic<bool> go = false;
    const auto wait_for = [&](Operation*& other) {
        return [&] {
            ++begun;
            go.wait(false);
            if (never_ends([&] { world.engine->wait(*other, forever); })) ++told;
        };
    };
    auto& one = world.push(wait_for(after_b), {{a, Mode::mutate}});
    auto& two = world.push(wait_for(after_a), {{b, Mode::mutate}});
    after_a = &world.push([] {}, {{a, Mode::read}});
    after_b = &world.push([] {}, {{b, Mode::read}});
    go = true;
    go.notify_all();
    expect(!world.outcome(one) && !world.outcome(two), "both to end");
    world.drop(*after_a);
    world.drop(*after_b);
    expect(told == 1, "the second one to be told");
}

/// Each of them could go on if the other ended.
void two_in_a_wide_lane_that_wait_for_a_third_are_told() {
    World world(3, 0);
    const auto lane = std::make_shared<Lane>("lane", 2);
    std::atomic<int> told = 0;
    std::atomic<int> begun = 0;
    std::atomic<Operation*> third = nullptr;
    const auto holder = [&] {
        ++begun;
        begun.notify_all();
        third.wait(nullptr);
        if (never_ends([&] { world.engine->wait(*third.load(), forever); })) ++told;
    };
    auto& one = world.push(holder, {}, {{lane, 1}});
    auto& two = world.push(holder, {}, {{lane, 1}});
    for (int now = begun; now < 2; now = begun) begun.wait(now);
    auto& awaited = world.push([] {}, {}, {{lane, 1}});
    third = &awaited;
    third.notify_all();
    expect(!world.outcome(one) && !world.outcome(two), "both to end");
    expect(!world.outcome(awaited), "the third to run");
    expect(told == 1, "the second one to be told");
}

void pushes_from_several_threads_do_not_block_each_other() {
    World world(3, 3);
    std::uint64_t sum = 0;  // no lock: that is the engine's promise
    {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                for (int i = 0; i < 2000; ++i) {
                    const auto first = static_cast<std::size_t>((t + i) % 3), second = (first + 1) % 3;
                    world.drop(
                        world.push([&] { ++sum; }, {{world.variables[first], Mode::mutate},
                                                    {world.variables[second], Mode::mutate},
                                                    {world.variables[(first + 2) % 3], Mode::mutate}}));
                }
            });
    }
    expect(world.engine->wait_until_idle(forever), "an idle engine");
    expect(sum == 8000, "all to run, one at a time");
}

void an_abandoned_engine_runs_nothing_more() {
    auto engine = Engine::make({.threads = 2, .dispose = dispose});
    auto& variable = engine->variable("");
    std::atomic<int> ran = 0;
    const Use use[] = {{&variable, Mode::mutate}};
    for (int i = 0; i < 1000; ++i)
        engine->forget(engine->push({.body = &function, .subject = new Work([&] { ++ran; }), .uses = use}));
    engine->abandon();
    expect(engine->close(std::chrono::steady_clock::now() + std::chrono::seconds(30)), "its threads to end");
    expect(engine->outstanding() == 0, "nothing under way");
    engine->forget(variable);
}

}  // namespace

int main(int count, char** arguments) {
    const unsigned programs = count > 1 ? static_cast<unsigned>(std::stoul(arguments[1])) : 60;
    const unsigned first = count > 2 ? static_cast<unsigned>(std::stoul(arguments[2])) : 1;
    for (unsigned seed = first; seed < first + programs; ++seed) {
        std::cerr << "seed " << seed << "\r";
        random_programs_equal_the_serial_order(seed);
    }
    a_failure_reaches_what_depends_on_it_and_nothing_else();
    those_that_accumulate_do_not_see_each_others_failures();
    a_long_chain_fails_without_recursion();
    what_is_cancelled_does_not_run();
    what_is_cancelled_leaves_the_queue_of_a_lane_at_once();
    a_wait_inside_runs_others_or_throws();
    behind_one_that_never_fits_nobody_is_served_nor_waited_for();
    a_wait_is_told_also_of_what_got_in_its_way_later();
    a_wait_for_another_engine_lends_the_place_and_sees_circles();
    who_awaits_a_variable_keeps_nobody();
    two_that_would_wait_for_each_other_are_told();
    two_in_a_wide_lane_that_wait_for_a_third_are_told();
    pushes_from_several_threads_do_not_block_each_other();
    an_abandoned_engine_runs_nothing_more();
}
