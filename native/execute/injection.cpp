#include "execute/injection.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "base/error.hpp"

namespace unisono {

namespace {

const char* name_of(Action action) {
    switch (action) {
        case Action::kill:
            return "kill";
        case Action::stall:
            return "stall";
        case Action::delay:
            return "delay";
        case Action::drop:
            return "drop";
    }
    return "nothing";
}

/// In one piece, and before anything happens to this process.
void tell(const std::string& line) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void Rehearsal::reach(std::int32_t round) {
    while (!is_over() && next_round() <= round) act(due_[next_++], "round " + std::to_string(round + 1));
}

void Rehearsal::end() {
    while (!is_over()) act(due_[next_++], "at its end");
}

void Rehearsal::act(const Injection& injection, const std::string& where) const {
    tell("unisono: injected " + std::string(name_of(injection.action)) + " in rank " + std::to_string(rank_) +
         ", call " + std::to_string(call_) + ", " + where + "\n");
    const bool ends = injection.pause > std::chrono::nanoseconds(0);
    // raise() signals this thread, so that it goes no further; kill() may signal another one of the process.
    if (injection.action == Action::kill) std::raise(SIGKILL);
    if (injection.action == Action::drop) drop_links(where);
    if (ends)
        std::this_thread::sleep_for(injection.pause);
    else if (injection.action == Action::stall)
        std::raise(SIGSTOP);
}

void Rehearsal::drop_links(const std::string& where) const {
    for (auto& link : links_) link.sever();
    const std::string why = "it broke its links, because UNISONO_INJECT asks for it";
    throw PeerLost(
        "rank " + std::to_string(rank_) + " in call " + std::to_string(call_) + ", " + where + ": " + why,
        {rank_}, why);
}

Rehearsal Injections::take(std::uint64_t call, int rank, Rehearsal::Links links) {
    const auto later = std::stable_partition(each_.begin(), each_.end(),
                                             [&](const Injection& each) { return each.call == call; });
    std::vector<Injection> due(each_.begin(), later);
    each_.erase(each_.begin(), later);
    std::ranges::stable_sort(due, {}, &Injection::round);
    return {rank, call, std::move(due), links};
}

}  // namespace unisono
