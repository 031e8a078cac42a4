#include "simulate/flows.hpp"

#include <cmath>

#include "expect.hpp"
#include "simulate/ports.hpp"

using namespace unisono::simulate;

namespace {

bool equal(double a, double b) { return std::abs(a - b) < 1e-9; }

/// Every rank sends a unit to the next one; `link` says over which link each of them goes.
Round ring(std::int32_t ranks, std::vector<std::uint32_t> links, std::int64_t repeat) {
    Round round;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
        round.source.push_back(rank);
        round.target.push_back((rank + 1) % ranks);
        for (auto* column : {&round.nbytes, &round.start, &round.out, &round.into, &round.plain})
            column->push_back(1);
        if (!links.empty()) round.route_begin.push_back(static_cast<std::uint32_t>(rank));
    }
    if (!links.empty()) round.route_begin.push_back(static_cast<std::uint32_t>(links.size()));
    round.links = std::move(links);
    round.repeat = repeat;
    round.index(static_cast<std::size_t>(ranks));
    return round;
}

void ports_and_flows_agree_where_nothing_is_shared() {
    for (const double late : {0.0, 0.75}) {
        const Round round = ring(5, {}, 9);
        Ranks fast(5), slow(5);
        Album none({0, 0, 0, 0, 0}, 0), some({1, 1, 1, 1, 1}, 1000);
        fast.begin[2] = slow.begin[2] = late;
        expect(advance_ports(fast, none, round.messages(), 9, 0), "no port is shared");
        run_flows(slow, some, std::span(&round, 1), {5, {}, false}, 0);
        for (std::size_t rank = 0; rank < 5; ++rank)
            expect(equal(fast.begin[rank], slow.begin[rank]), "same end");
        expect(some.flights().size() == 45, "every message was seen");
        expect(equal(fast.begin[2], late + 18), "nine rounds of two seconds, and what the late one held up");
    }
}

void messages_of_a_round_share_a_link() {
    const Round round = ring(3, {0, 0, 0}, 2);
    Ranks ranks(3);
    Album none({0, 0, 0}, 0);
    run_flows(ranks, none, std::span(&round, 1), {3, {1.0}, false}, 0);
    for (const double end : ranks.begin) expect(equal(end, 2 * (1 + 3)), "three messages on one link, twice");
}

void a_dead_rank_holds_up_who_waits_for_it() {
    std::vector<Round> rounds{ring(4, {}, 1), ring(4, {}, 3)};
    rounds[1].dies = 1;
    Ranks ranks(4);
    Album none({0, 0, 0, 0}, 0);
    run_flows(ranks, none, rounds, {4, {}, false}, 0);
    expect(ranks.last_round == std::vector<std::int64_t>({1, 1, 1, 2}),
           "neighbours at once, the last a round later");
    expect(ranks.waits_for[0] == 1 && ranks.waits_for[2] == 1 && ranks.waits_for[1] == -1,
           "who waits for whom");
    expect(equal(ranks.stuck_since[0], 2) && equal(ranks.stuck_since[3], 4), "since when");
    for (const double end : ranks.begin) expect(end == never, "nobody gets through");
}

void shared_ports_are_refused_where_none_are_expected() {
    Round round = ring(3, {}, 1);
    round.target[0] = 2;
    Ranks ranks(3);
    Album none({0, 0, 0}, 0);
    expect(!advance_ports(ranks, none, round.messages(), 1, 0), "two messages for one rank");
    expect(ranks.begin == std::vector<double>(3), "nothing is done");
}

}  // namespace

int main() {
    ports_and_flows_agree_where_nothing_is_shared();
    messages_of_a_round_share_a_link();
    a_dead_rank_holds_up_who_waits_for_it();
    shared_ports_are_refused_where_none_are_expected();
}
