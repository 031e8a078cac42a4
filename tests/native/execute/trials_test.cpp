#include "execute/trials.hpp"

#include <chrono>
#include <map>

#include "expect.hpp"

using namespace unisono;
using namespace std::chrono_literals;

namespace {

using Prices = std::map<Way, Clock::duration>;

/// How many of so many calls went each way, if calls take what the prices say.
std::map<Way, int> made(Trials& trials, int calls, Prices prices, std::uint64_t era = 0) {
    std::map<Way, int> result;
    for (int call = 0; call < calls; ++call) {
        const auto [way, is_timed] = trials.next(era);
        ++result[way];
        if (is_timed) trials.learn(way, prices[way]);
    }
    return result;
}

void the_fastest_way_is_taken() {
    for (const auto best : {Way::copied, Way::streamed, Way::direct}) {
        Prices prices{{Way::copied, 30us}, {Way::streamed, 30us}, {Way::direct, 30us}};
        prices[best] = 20us;
        Trials trials(true, 1, 1);
        made(trials, 100, prices);
        expect(made(trials, 1000, prices)[best] > 900, "most calls to go the best way");
    }
}

void another_machine_has_another_way() {
    Trials trials(true, 4, 1);
    made(trials, 5000, {{Way::copied, 10us}, {Way::streamed, 30us}, {Way::direct, 30us}});
    const Prices prices{{Way::copied, 30us}, {Way::streamed, 30us}, {Way::direct, 10us}};
    made(trials, 5000, prices);
    expect(made(trials, 1000, prices)[Way::direct] > 900, "the ranks to notice that cores have changed");
}

void ways_that_are_about_as_good_are_not_changed() {
    Trials trials(true, 1, 1);
    made(trials, 100, {{Way::copied, 20us}, {Way::streamed, 30us}, {Way::direct, 30us}});
    const auto calls =
        made(trials, 1000, {{Way::copied, 20us}, {Way::streamed, 30us}, {Way::direct, 19500ns}});
    expect(calls.at(Way::copied) > 900, "the first of two to be kept");
}

void one_call_in_the_way_of_others_changes_nothing() {
    Trials trials(false, 1, 1);
    made(trials, 100, {{Way::copied, 20us}, {Way::streamed, 30us}});
    trials.learn(Way::copied, 10ms);
    expect(!trials.next(0).is_timed && trials.next(0).way == Way::copied, "the median to count");
}

void nothing_is_direct_that_may_not_be() {
    Trials trials(false, 1, 1);
    const auto calls = made(trials, 1000, {{Way::copied, 20us}, {Way::streamed, 30us}, {Way::direct, 1us}});
    expect(!calls.contains(Way::direct), "two ways");
}

void ranks_are_in_step_also_after_calls_that_only_some_have_made() {
    Trials one(true, 2, 1), other(true, 2, 1);
    for (int call = 0; call < 17; ++call) one.next(0);
    for (int call = 0; call < 1000; ++call) {
        const auto turn = one.next(1), theirs = other.next(1);
        expect(turn.way == theirs.way && turn.is_timed == theirs.is_timed, "both to begin anew");
    }
}

void a_place_in_the_stage_was_used_before_it_is_timed() {
    constexpr std::uint64_t turns = 5;
    Trials trials(true, turns, 1);
    for (std::uint64_t call = 0; call < 2 * turns; ++call)
        expect(!trials.next(0).is_timed, "both stages to be gone through first");
    expect(trials.next(0).is_timed, "then the time");
}

void long_calls_are_tried_once() {
    Trials trials(true, 2, 100);
    const Prices prices{{Way::copied, 30us}, {Way::streamed, 40us}, {Way::direct, 20us}};
    const auto calls = made(trials, 20, prices);
    expect(calls.at(Way::copied) == 2 && calls.at(Way::streamed) == 2, "one round of two calls each");
}

void few_calls_go_other_ways_in_the_end() {
    for (const std::uint64_t turns : {1, 64}) {
        Trials trials(true, turns, 1);
        const Prices prices{{Way::copied, 30us}, {Way::streamed, 40us}, {Way::direct, 20us}};
        made(trials, 50'000, prices);
        expect(made(trials, 100'000, prices)[Way::direct] > 97'000, "one call in thirty at most");
    }
}

}  // namespace

int main() {
    the_fastest_way_is_taken();
    another_machine_has_another_way();
    ways_that_are_about_as_good_are_not_changed();
    one_call_in_the_way_of_others_changes_nothing();
    nothing_is_direct_that_may_not_be();
    ranks_are_in_step_also_after_calls_that_only_some_have_made();
    a_place_in_the_stage_was_used_before_it_is_timed();
    long_calls_are_tried_once();
    few_calls_go_other_ways_in_the_end();
}
