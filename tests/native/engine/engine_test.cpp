// Random native programs: what they compute, and in which order, is as if they had run one after the other.

#include "engine/engine.hpp"

#include <atomic>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <thread>

#include "expect.hpp"

using namespace unisono::engine;

namespace {

using Work = std::function<void()>;

/// Runs a function of C++.
class Function final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override {
        FailurePtr failure;
        try {
            (*static_cast<Work*>(operation.subject))();
        } catch (const std::exception&) {
            failure = std::make_shared<Failure>(Failure{operation.serial, std::current_exception(), nullptr});
        }
        engine.finish(operation, std::move(failure), true);
    }
    const char* name() const override { return "function"; }
};

/// Is finished by another thread.
class Elsewhere final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override {
        std::thread([keep = engine.shared_from_this(), &operation] {
            (*static_cast<Work*>(operation.subject))();
            keep->finish(operation, nullptr);
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

/// Of one variable: no conflicting accesses at once, and values as in the order of pushes.
struct Cell {
    std::uint64_t value = 0;
    std::atomic<int> readers = 0, writers = 0, adders = 0;
};

void random_programs_equal_the_serial_order(unsigned seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::uint64_t n) { return static_cast<std::size_t>(random() % n); };
    const std::size_t count = 1 + pick(40);
    std::vector<Cell> cells(count);
    std::vector<std::uint64_t> serial(count);
    World world(static_cast<int>(1 + pick(4)), count);
    const auto lane = std::make_shared<Lane>("lane", 1 + pick(3));
    const auto room = lane->capacity();
    auto in_lane = std::make_shared<std::atomic<std::uint64_t>>(0);
    for (std::size_t number = 1; number <= 400; ++number) {
        std::vector<Use> uses;
        std::vector<std::size_t> reads, mutates, accumulates;
        for (std::size_t i = 0; i < count; ++i) {
            if (pick(count) >= 3) continue;
            const auto mode = static_cast<Mode>(pick(3));
            uses.push_back({world.variables[i], mode});
            (mode == Mode::read ? reads : mode == Mode::mutate ? mutates : accumulates).push_back(i);
        }
        std::uint64_t sum = number;
        for (const auto i : reads) sum += serial[i];
        for (const auto i : mutates) serial[i] = serial[i] * 31 + sum;
        for (const auto i : accumulates) serial[i] += sum;
        const bool uses_lane = pick(4) == 0;
        const auto amount = 1 + pick(room);
        const auto work = [&cells, in_lane, reads, mutates, accumulates, number, uses_lane, amount, room] {
            if (uses_lane) expect(in_lane->fetch_add(amount) + amount <= room, "room in the lane");
            std::uint64_t total = number;
            for (const auto i : reads) {
                ++cells[i].readers;
                expect(cells[i].writers == 0 && cells[i].adders == 0,
                       "nobody who writes while somebody reads");
                total += cells[i].value;
            }
            for (const auto i : mutates) {
                expect(++cells[i].writers == 1 && cells[i].readers == 0 && cells[i].adders == 0,
                       "one who writes");
                cells[i].value = cells[i].value * 31 + total;
            }
            for (const auto i : accumulates) {
                expect(++cells[i].adders == 1 && cells[i].readers == 0 && cells[i].writers == 0,
                       "one who adds");
                cells[i].value += total;
            }
            if (number % 7 == 0) std::this_thread::yield();
            for (const auto i : reads) --cells[i].readers;
            for (const auto i : mutates) --cells[i].writers;
            for (const auto i : accumulates) --cells[i].adders;
            if (uses_lane) in_lane->fetch_sub(amount);
        };
        std::vector<Demand> demands;
        if (uses_lane) demands.push_back({lane, amount});
        const auto priority = pick(5) == 0 ? static_cast<int>(pick(5)) - 2 : 0;
        const Body& body = pick(20) == 0 ? static_cast<const Body&>(elsewhere) : function;
        world.drop(world.push(work, uses, demands, priority, body));
    }
    expect(world.engine->wait_until_idle(forever), "an idle engine");
    for (std::size_t i = 0; i < count; ++i)
        expect(cells[i].value == serial[i], "what the serial order gives");
}

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
    a_wait_inside_runs_others_or_throws();
    behind_one_that_never_fits_nobody_is_served_nor_waited_for();
    a_wait_is_told_also_of_what_got_in_its_way_later();
    a_wait_for_another_engine_lends_the_place_and_sees_circles();
    who_awaits_a_variable_keeps_nobody();
    two_that_would_wait_for_each_other_are_told();
    pushes_from_several_threads_do_not_block_each_other();
    an_abandoned_engine_runs_nothing_more();
}
