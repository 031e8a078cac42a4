#include "observe/recorder.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <optional>
#include <stop_token>
#include <thread>

#include "expect.hpp"

using namespace unisono;
using namespace std::chrono_literals;

namespace {

std::atomic<int> allocations = 0;

}  // namespace

void* operator new(std::size_t bytes) {
    ++allocations;
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

void a_call_is_kept_with_all_that_is_known_of_it() {
    Recorder recorder(4);
    {
        Recording recording(recorder, {.kind = 7, .site = 8, .bytes = 4096}, 41, quick_now());
        recorder.expect(3);
        recorder.expect(1);
        recorder.only_send_to(2);
        recorder.arrived(1);
        const auto during = recorder.calls_since(0);
        expect(during.size() == 1 && during[0].outcome == Outcome::running && during[0].ended == 0,
               "a call under way to be seen");
        recording.succeed();
    }
    const auto calls = recorder.calls_since(0);
    expect(calls.size() == 1, "one call");
    const auto& call = calls[0];
    expect(call.number == 0 && call.sequence == 41, "its numbers");
    expect(call.label.kind == 7 && call.label.site == 8 && call.label.bytes == 4096, "its label");
    expect(call.outcome == Outcome::done && call.began > 0 && call.ended >= call.began, "its time");
    expect(call.peers.size() == 3 && call.peers[0].peer == 3 && call.peers[1].peer == 1, "its peers");
    expect(call.peers[0].expected && call.peers[1].expected && !call.peers[2].expected, "who sends");
    expect(call.peers[0].arrived == 0, "who has not come to be known");
    expect(call.peers[1].arrived >= call.began && call.peers[1].arrived <= call.ended, "an arrival");
    expect(call.peers[0].waited == 0 && call.peers[1].waited == 0, "no wait");
}

void a_call_that_is_left_by_an_exception_has_failed() {
    Recorder recorder(2);
    try {
        const Recording recording(recorder, {}, 0, quick_now());
        throw 1;
    } catch (int) {
    }
    expect(recorder.calls_since(0)[0].outcome == Outcome::failed, "a failure");
}

void only_the_first_frame_of_a_peer_counts() {
    Recorder recorder(2);
    const Recording recording(recorder, {}, 0, quick_now());
    recorder.expect(1);
    recorder.arrived(1);
    const auto first = recorder.calls_since(0)[0].peers[0].arrived;
    std::this_thread::sleep_for(1ms);
    recorder.arrived(1);
    expect(recorder.calls_since(0)[0].peers[0].arrived == first, "the first arrival");
}

void waits_are_charged_to_who_was_awaited() {
    Recorder recorder(3);
    {
        const Recording recording(recorder, {}, 0, quick_now());
        recorder.expect(1);
        recorder.expect(2);
        recorder.begin_wait();
        recorder.wait_for(1);
        recorder.wait_for(2);
        std::this_thread::sleep_for(5ms);
        recorder.end_wait();
        recorder.begin_wait();
        recorder.wait_for(2);
        std::this_thread::sleep_for(10ms);
        recorder.update_wait(quick_now());
        expect(recorder.calls_since(0)[0].peers[1].waited >= 15'000'000, "a wait to be seen while it lasts");
        std::this_thread::sleep_for(5ms);
    }  // ends the wait, too
    const auto peers = recorder.calls_since(0)[0].peers;
    expect(peers[0].waited >= 5'000'000 && peers[0].longest == peers[0].waited, "one wait for both");
    expect(peers[1].waited >= peers[0].waited + 15'000'000, "another for the second");
    expect(peers[1].longest >= 15'000'000 && peers[1].longest < peers[1].waited, "the longest alone");
    expect(peers[1].longest_began >= peers[0].longest_began + peers[0].longest, "and when it began");
    const auto totals = recorder.waited();
    expect(totals[0] == 0 && totals[1] == peers[0].waited && totals[2] == peers[1].waited, "totals");
    {
        const Recording recording(recorder, {}, 1, quick_now());
        recorder.expect(2);
    }
    expect(recorder.calls_since(1)[0].peers[0].waited == 0, "a new call to begin at nothing");
    expect(recorder.waited() == totals, "totals that stay");
}

void who_has_not_come_is_awaited_rather_than_who_may_wait_for_it() {
    Recorder recorder(5);
    const Recording recording(recorder, {}, 0, quick_now());
    for (const int peer : {1, 2, 3}) recorder.expect(peer);
    recorder.only_send_to(4);
    recorder.arrived(1);
    const auto wait = [&] {
        recorder.begin_wait();
        for (const int peer : {1, 2, 3, 4}) recorder.wait_for(peer);
        std::this_thread::sleep_for(1ms);
        recorder.end_wait();
        return recorder.waited();
    };
    const auto first = wait();
    expect(first[1] == 0 && first[2] > 0 && first[3] > 0 && first[4] == 0, "both that have not come");
    recorder.arrived(2);
    recorder.arrived(3);
    const auto second = wait();
    expect(second[1] > 0 && second[2] > first[2] && second[3] > first[3] && second[4] > 0, "then all");
}

void the_last_calls_are_kept() {
    Recorder recorder(2);
    const std::uint64_t calls = 3 * Recorder::calls_kept + 5;
    for (std::uint64_t call = 0; call < calls; ++call) {
        Recording recording(recorder, {.bytes = call}, call, quick_now());
        recording.succeed();
    }
    const auto kept = recorder.calls_since(0);
    expect(kept.size() == Recorder::calls_kept, "a full ring");
    for (std::size_t i = 0; i < kept.size(); ++i)
        expect(kept[i].number == calls - Recorder::calls_kept + i && kept[i].label.bytes == kept[i].number,
               "the last ones, the oldest first");
    expect(recorder.calls_since(calls - 3).size() == 3, "those since a number");
    expect(recorder.calls_since(calls).empty(), "nothing new");
}

/// Every field of a call is its number, so that a mixture of two calls shows.
void a_reader_sees_whole_calls_while_they_are_made() {
    Recorder recorder(3);
    std::jthread writer([&](const std::stop_token& stop) {
        for (std::uint64_t call = 0; !stop.stop_requested(); ++call) {
            const auto number = static_cast<std::uint32_t>(call);
            Recording recording(recorder, {number, number, call}, call, quick_now());
            recorder.expect(call % 2 == 0 ? 1 : 2);
            recorder.arrived(call % 2 == 0 ? 1 : 2);
            recording.succeed();
        }
    });
    std::uint64_t next = 0, seen = 0;
    const auto end = Clock::now() + 5s;
    while (seen < 20'000 && Clock::now() < end) {
        for (const auto& call : recorder.calls_since(next)) {
            expect(call.number >= next, "calls in their order");
            next = call.number + (call.outcome == Outcome::running ? 0 : 1);
            expect(call.sequence == call.number && call.label.bytes == call.number &&
                       call.label.kind == static_cast<std::uint32_t>(call.number) &&
                       call.label.site == call.label.kind,
                   "one call, not two");
            if (call.outcome == Outcome::running) continue;
            expect(call.peers.size() == 1 && call.peers[0].peer == (call.number % 2 == 0 ? 1 : 2),
                   "its peer");
            expect(call.peers[0].arrived >= call.began && call.ended >= call.peers[0].arrived,
                   "an ended call to be complete");
            ++seen;
        }
        recorder.waited();
    }
    expect(seen > 1000, "to have seen something");
}

/// Every third call is of all ranks; of the others, each sends a message.
void a_tally_is_of_the_call_under_way_as_long_as_that_is() {
    Recorder recorder(2);
    std::atomic<bool> over = false;
    std::thread writer([&] {
        for (std::uint64_t number = 0; number < 30'000; ++number) {
            const bool of_all = number % 3 == 2;
            {
                Recording recording(recorder, {}, of_all ? number / 3 : Recorder::no_sequence, quick_now());
                recording.succeed();
            }
            if (!of_all) recorder.sent_to(1);
        }
        over = true;
    });
    const auto newest = [&](std::uint64_t since) {
        const auto calls = recorder.calls_since(since);
        return calls.empty() ? std::nullopt : std::optional(calls.back());
    };
    for (std::uint64_t since = 0; !over;) {
        const auto before = newest(since);
        const auto tally = recorder.tally();
        const auto after = before ? newest(before->number) : std::nullopt;
        if (!after) continue;
        since = before->number;
        if (after->number != since || after->outcome != Outcome::running) continue;
        expect(tally.sent[1] == since - since / 3, "the messages before it");
        expect(tally.of_all == (since + 1) / 3, "the calls of all ranks up to it");
    }
    writer.join();
    recorder.received_from(0);
    recorder.count_from(77);
    const auto [of_all, sent, received, since] = recorder.tally();
    expect(of_all == 77 && sent[1] == 0 && received[0] == 0 && since == 30'000, "a new beginning");
}

void writing_allocates_nothing() {
    Recorder recorder(4);
    const auto before = allocations.load();
    for (std::uint64_t call = 0; call < 2 * Recorder::calls_kept; ++call) {
        Recording recording(recorder, {}, call, quick_now());
        for (const int peer : {1, 2, 3}) recorder.expect(peer);
        for (const int peer : {1, 2, 3}) recorder.arrived(peer);
        recorder.begin_wait();
        for (const int peer : {1, 2, 3}) recorder.wait_for(peer);
        recorder.end_wait();
        recording.succeed();
    }
    expect(allocations == before, "no allocation");
}

}  // namespace

int main() {
    a_call_is_kept_with_all_that_is_known_of_it();
    a_call_that_is_left_by_an_exception_has_failed();
    only_the_first_frame_of_a_peer_counts();
    waits_are_charged_to_who_was_awaited();
    who_has_not_come_is_awaited_rather_than_who_may_wait_for_it();
    the_last_calls_are_kept();
    a_reader_sees_whole_calls_while_they_are_made();
    a_tally_is_of_the_call_under_way_as_long_as_that_is();
    writing_allocates_nothing();
}
