// Calls in the order in which they were made, here or on the queue's thread.

#include "execute/queue.hpp"

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "expect.hpp"

using unisono::CallQueue;

namespace {

bool forever() { return true; }

void an_idle_queue_runs_a_call_in_the_callers_thread() {
    CallQueue queue;
    std::thread::id where;
    expect(queue.run_or_start([&](bool) { where = std::this_thread::get_id(); }) == nullptr, "no ticket");
    expect(where == std::this_thread::get_id(), "the caller's thread");
}

void started_calls_run_in_order_on_another_thread() {
    CallQueue queue;
    std::vector<int> order;  // no lock: that is the queue's promise
    std::promise<void> go;
    std::vector<std::shared_ptr<unisono::Ticket>> tickets;
    tickets.push_back(queue.start([&, ready = go.get_future().share()](bool) { ready.wait(); }));
    for (int i = 0; i < 100; ++i) tickets.push_back(queue.start([&, i](bool) { order.push_back(i); }));
    tickets.push_back(queue.run_or_start([&](bool) { order.push_back(100); }));
    expect(tickets.back() != nullptr, "a call behind others to be started, too");
    expect(!tickets.back()->done(), "nothing done before the first one is");
    int looks = 0;
    expect(!tickets.back()->wait([&] { return ++looks < 2; }), "a wait that is given up");
    go.set_value();
    for (const auto& ticket : tickets) expect(ticket->wait(forever) && ticket->done(), "every call to end");
    for (int i = 0; i <= 100; ++i)
        expect(order.at(static_cast<std::size_t>(i)) == i, "the order of the calls");
}

void a_failure_is_kept_for_who_waits_and_stops_nobody_else() {
    CallQueue queue;
    const auto bad = queue.start([](bool) { throw std::runtime_error("bad"); });
    const auto good = queue.start([](bool) {});
    expect(bad->wait(forever) && good->wait(forever), "both to end");
    good->rethrow();
    try {
        bad->rethrow();
        expect(false, "the failure");
    } catch (const std::runtime_error& error) {
        expect(std::string(error.what()) == "bad", "what was thrown");
    }
    try {
        queue.run_or_start([](bool) { throw std::runtime_error("here"); });
        expect(false, "the failure at once");
    } catch (const std::runtime_error&) {
    }
    expect(queue.run_or_start([](bool) {}) == nullptr, "the queue to be idle again");
}

void calls_go_on_when_their_queue_has_ended_also_if_they_are_the_last_to_know_it() {
    auto queue = std::make_shared<CallQueue>();
    std::atomic<int> ran = 0;
    std::vector<std::shared_ptr<unisono::Ticket>> tickets;
    for (int i = 0; i < 10; ++i) tickets.push_back(queue->start([&ran, queue](bool) { ++ran; }));
    queue.reset();
    for (const auto& ticket : tickets) ticket->wait(forever);
    expect(ran == 10, "all calls to run");
}

void callers_from_several_threads_take_turns() {
    CallQueue queue;
    int sum = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                for (int j = 0; j < 200; ++j)
                    if (const auto ticket = queue.run_or_start([&](bool) { ++sum; })) ticket->wait(forever);
            });
    }
    expect(sum == 800, "every call to run, one at a time");
}

void who_waits_runs_what_nobody_runs_yet() {
    CallQueue queue;
    int sum = 0, here = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                for (int j = 0; j < 200; ++j) {
                    const auto ticket = queue.start([&](bool in_background) {
                        ++sum;
                        here += in_background ? 0 : 1;
                    });
                    ticket->help({});
                    ticket->wait(forever);
                    expect(ticket->done(), "the call to be through");
                }
            });
    }
    expect(sum == 800, "every call to run once, one at a time");
    expect(here > 0, "some of them in the threads that wait");
}

void a_failure_in_the_thread_that_waits_is_kept_like_any_other() {
    CallQueue queue;
    const auto bad = queue.start([](bool) { throw std::runtime_error("bad"); });
    bad->help({});
    bad->wait(forever);
    try {
        bad->rethrow();
        expect(false, "the failure");
    } catch (const std::runtime_error&) {
    }
    expect(queue.run_or_start([](bool) {}) == nullptr, "the queue to be idle again");
}

void who_asked_is_told_of_the_end_once_also_if_it_was_before() {
    CallQueue queue;
    std::promise<void> go;
    std::atomic<int> good = 0, bad = 0;
    const auto tell = [&](bool succeeded) { ++(succeeded ? good : bad); };
    const auto first = queue.start([&, ready = go.get_future().share()](bool) { ready.wait(); });
    const auto second = queue.start([](bool) { throw std::runtime_error("bad"); });
    first->then(tell);
    second->then(tell);
    expect(good == 0 && bad == 0, "nobody to be told before the end");
    go.set_value();
    first->wait(forever);
    second->wait(forever);
    second->then(tell);
    while (good + bad < 3) std::this_thread::yield();
    expect(good == 1 && bad == 2, "each to be told once");
}

}  // namespace

int main() {
    an_idle_queue_runs_a_call_in_the_callers_thread();
    started_calls_run_in_order_on_another_thread();
    a_failure_is_kept_for_who_waits_and_stops_nobody_else();
    calls_go_on_when_their_queue_has_ended_also_if_they_are_the_last_to_know_it();
    callers_from_several_threads_take_turns();
    who_waits_runs_what_nobody_runs_yet();
    a_failure_in_the_thread_that_waits_is_kept_like_any_other();
    who_asked_is_told_of_the_end_once_also_if_it_was_before();
}
