#include "simulate/flows.hpp"

#include <algorithm>
#include <cmath>
#include <queue>

#include "simulate/sharing.hpp"

namespace unisono::simulate {

void Round::index(std::size_t ranks) {
    of_rank_begin.assign(ranks + 1, 0);
    const auto count = static_cast<std::uint32_t>(source.size());
    for (std::uint32_t m = 0; m < count; ++m) {
        ++of_rank_begin[static_cast<std::size_t>(source[m]) + 1];
        if (target[m] != source[m]) ++of_rank_begin[static_cast<std::size_t>(target[m]) + 1];
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) of_rank_begin[rank + 1] += of_rank_begin[rank];
    of_rank.resize(of_rank_begin.back());
    std::vector<std::uint32_t> next(of_rank_begin.begin(), of_rank_begin.end() - 1);
    for (std::uint32_t m = 0; m < count; ++m) {
        of_rank[next[static_cast<std::size_t>(source[m])]++] = m;
        if (target[m] != source[m]) of_rank[next[static_cast<std::size_t>(target[m])]++] = m;
    }
}

namespace {

/// Events so close to each other are one: what should end together does, in spite of rounding.
constexpr double at_once = 1e-12;

enum class Kind : std::uint8_t { begins, moves, ends };

struct Event {
    double time;
    Kind kind;
    std::uint32_t index;  // a rank, or a flow
    std::uint32_t version;

    bool operator>(const Event& other) const { return time > other.time; }
};

struct Flow {
    std::uint32_t step;
    std::uint32_t message;
    std::int64_t round;
    double ready, began, alone;
    double left;  // of the message, from 1 to 0
    double rate;
    double since;
    std::uint32_t version = 0;
    std::uint32_t visited = 0;
    std::vector<std::uint32_t> resources;
    std::vector<std::uint32_t> places;  // in the lists of these
};

struct Position {
    std::uint32_t step = 0;
    std::int64_t turn = 0;
    std::int64_t round = 0;
    std::uint32_t open = 0;
    bool has_begun = false;
    double begun = 0;
};

class Simulation {
  public:
    Simulation(Ranks& ranks, Album& album, std::span<const Round> rounds, std::span<const double> link_beta,
               std::int64_t first_round, bool fair)
        : ranks_(ranks),
          album_(album),
          rounds_(rounds),
          link_beta_(link_beta),
          fair_(fair),
          positions_(ranks.size()),
          on_resource_(2 * ranks.size() + link_beta.size()),
          visited_(on_resource_.size()),
          sharing_(on_resource_.size()) {
        for (Position& position : positions_) position.round = first_round;
    }

    void run() {
        for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
            if (ranks_.begin[rank] < never) events_.push({ranks_.begin[rank], Kind::begins, rank, 0});
        while (!events_.empty()) {
            advance(events_.top().time);
            share_again();
        }
        stall();
    }

  private:
    void advance(double first) {
        const double until = first + at_once * first;
        while (!events_.empty() && events_.top().time <= until) {
            const Event event = events_.top();
            events_.pop();
            now_ = std::max(now_, event.time);
            if (event.kind == Kind::begins)
                begin(event.index);
            else if (event.version == flows_[event.index].version)
                event.kind == Kind::moves ? move(event.index) : end(event.index);
            while (!ready_.empty()) {
                const std::uint32_t rank = ready_.back();
                ready_.pop_back();
                begin(rank);
            }
        }
    }

    /// A rank comes to a round; rounds without work for it are over at once.
    void begin(std::uint32_t rank) {
        Position& at = positions_[rank];
        for (;;) {
            if (at.step == rounds_.size()) {
                ranks_.begin[rank] = now_;
                return;
            }
            const Round& round = rounds_[at.step];
            if (round.dies == static_cast<std::int32_t>(rank) && at.turn == 0) {
                ranks_.stall(rank, at.round, -1, now_);
                return;
            }
            at.has_begun = true;
            at.begun = now_;
            const std::uint32_t first = round.of_rank_begin[rank], last = round.of_rank_begin[rank + 1];
            at.open = last - first;
            if (at.open > 0) {
                for (std::uint32_t i = first; i < last; ++i) meet(rank, round, round.of_rank[i]);
                return;
            }
            go_on(at, round);
        }
    }

    static void go_on(Position& at, const Round& round) {
        const std::int64_t turns = round.of_rank.empty() ? round.repeat : 1;
        at.has_begun = false;
        at.round += turns;
        at.turn += turns;
        if (at.turn == round.repeat) {
            at.turn = 0;
            ++at.step;
        }
    }

    /// A message sets off when both of its ranks have begun its round.
    void meet(std::uint32_t rank, const Round& round, std::uint32_t m) {
        const auto source = static_cast<std::uint32_t>(round.source[m]);
        const auto target = static_cast<std::uint32_t>(round.target[m]);
        const Position& mine = positions_[rank];
        const Position& other = positions_[source == rank ? target : source];
        if (!other.has_begun || other.step != mine.step || other.turn != mine.turn) return;
        const std::uint32_t f = new_flow();
        Flow& flow = flows_[f];
        flow.step = mine.step;
        flow.message = m;
        flow.round = mine.round;
        flow.ready = now_;
        if (round.start[m] > 0)
            events_.push({now_ + round.start[m], Kind::moves, f, flow.version});
        else
            move(f);
    }

    void move(std::uint32_t f) {
        Flow& flow = flows_[f];
        const Round& round = rounds_[flow.step];
        const std::uint32_t m = flow.message;
        flow.began = flow.since = now_;
        flow.left = 1;
        flow.rate = flow.alone = 0;
        const bool is_free = round.messages().alone(m) <= 0;
        if (is_free && (round.nbytes[m] <= 0 || round.route(m).empty())) return end(f);
        const auto ranks = static_cast<std::uint32_t>(ranks_.size());
        if (round.out[m] > 0) enter(f, static_cast<std::uint32_t>(round.source[m]));
        if (round.into[m] > 0) enter(f, ranks + static_cast<std::uint32_t>(round.target[m]));
        for (const std::uint32_t link : round.route(m)) enter(f, 2 * ranks + link);
        flow.alone = 1 / rate_alone(flow);
    }

    void enter(std::uint32_t f, std::uint32_t resource) {
        auto& there = on_resource_[resource];
        flows_[f].resources.push_back(resource);
        flows_[f].places.push_back(static_cast<std::uint32_t>(there.size()));
        there.push_back(f);
        changed_.push_back(resource);
    }

    void leave(std::uint32_t f) {
        Flow& flow = flows_[f];
        for (std::size_t i = 0; i < flow.resources.size(); ++i) {
            auto& there = on_resource_[flow.resources[i]];
            const std::uint32_t moved = there.back();
            there[flow.places[i]] = moved;
            there.pop_back();
            changed_.push_back(flow.resources[i]);
            if (moved == f) continue;
            Flow& other = flows_[moved];
            const auto at = std::find(other.resources.begin(), other.resources.end(), flow.resources[i]);
            other.places[static_cast<std::size_t>(at - other.resources.begin())] = flow.places[i];
        }
        flow.resources.clear();
        flow.places.clear();
    }

    void end(std::uint32_t f) {
        leave(f);
        Flow& flow = flows_[f];
        const Round& round = rounds_[flow.step];
        const std::uint32_t m = flow.message;
        const std::int32_t source = round.source[m], target = round.target[m];
        if (source != target)
            album_.add(
                {flow.round, source, target, round.nbytes[m], flow.alone, flow.ready, flow.began, now_});
        ++flow.version;
        free_.push_back(f);
        count_down(static_cast<std::uint32_t>(source), round, m);
        if (target != source) count_down(static_cast<std::uint32_t>(target), round, m);
    }

    void count_down(std::uint32_t rank, const Round& round, std::uint32_t m) {
        Position& at = positions_[rank];
        if (--at.open > 0) return;
        ranks_.account(rank, round.messages(), m, 1);
        go_on(at, round);
        ready_.push_back(rank);
    }

    /// New rates for every flow that is joined to a change by resources in common.
    void share_again() {
        if (changed_.empty()) return;
        ++visit_;
        for (const std::uint32_t resource : changed_)
            if (visited_[resource] != visit_) share_around(resource);
        changed_.clear();
    }

    void share_around(std::uint32_t resource) {
        joined_.clear();
        frontier_.assign(1, resource);
        visited_[resource] = visit_;
        while (!frontier_.empty()) {
            const std::uint32_t here = frontier_.back();
            frontier_.pop_back();
            for (const std::uint32_t f : on_resource_[here]) {
                if (flows_[f].visited == visit_) continue;
                flows_[f].visited = visit_;
                joined_.push_back(f);
                for (const std::uint32_t next : flows_[f].resources)
                    if (visited_[next] != visit_) {
                        visited_[next] = visit_;
                        frontier_.push_back(next);
                    }
            }
        }
        if (joined_.size() == 1) return set_rate(joined_[0], rate_alone(flows_[joined_[0]]));
        sharing_.clear();
        for (const std::uint32_t f : joined_) describe(flows_[f]);
        sharing_.solve();
        for (std::size_t i = 0; i < joined_.size(); ++i) set_rate(joined_[i], sharing_.flows[i].rate);
    }

    double seconds(const Flow& flow, std::uint32_t resource) const {
        const Round& round = rounds_[flow.step];
        const auto ranks = static_cast<std::uint32_t>(ranks_.size());
        if (resource < ranks) return round.out[flow.message];
        if (resource < 2 * ranks) return round.into[flow.message];
        return round.nbytes[flow.message] * link_beta_[resource - 2 * ranks];
    }

    double rate_alone(const Flow& flow) const {
        double longest = 0;
        for (const std::uint32_t resource : flow.resources)
            longest = std::max(longest, seconds(flow, resource));
        return 1 / longest;
    }

    void describe(const Flow& flow) {
        const Round& round = rounds_[flow.step];
        const std::uint32_t m = flow.message;
        const auto first = static_cast<std::uint32_t>(sharing_.uses.size());
        for (const std::uint32_t resource : flow.resources)
            sharing_.uses.push_back({resource, seconds(flow, resource)});
        const double weight = fair_ && round.nbytes[m] > 0 ? 1 / round.nbytes[m] : 1;
        sharing_.flows.push_back(
            {fair_ ? 0 : flow.round, weight, first, static_cast<std::uint32_t>(flow.resources.size()), 0});
    }

    void set_rate(std::uint32_t f, double rate) {
        Flow& flow = flows_[f];
        if (flow.rate > 0 && std::abs(rate - flow.rate) <= at_once * flow.rate) return;
        flow.left -= flow.rate * (now_ - flow.since);
        flow.since = now_;
        flow.rate = rate;
        ++flow.version;
        if (rate > 0) events_.push({now_ + std::max(flow.left, 0.0) / rate, Kind::ends, f, flow.version});
    }

    std::uint32_t new_flow() {
        if (free_.empty()) {
            flows_.emplace_back();
            return static_cast<std::uint32_t>(flows_.size() - 1);
        }
        const std::uint32_t f = free_.back();
        free_.pop_back();
        return f;
    }

    /// Whoever is not through is stuck: it waits for somebody who never comes.
    void stall() {
        for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
            const Position& at = positions_[rank];
            if (at.step == rounds_.size()) continue;
            ranks_.begin[rank] = never;
            if (!at.has_begun) continue;
            const Round& round = rounds_[at.step];
            for (std::uint32_t i = round.of_rank_begin[rank]; i < round.of_rank_begin[rank + 1]; ++i) {
                const std::uint32_t m = round.of_rank[i];
                const auto peer =
                    round.source[m] == static_cast<std::int32_t>(rank) ? round.target[m] : round.source[m];
                const Position& other = positions_[static_cast<std::size_t>(peer)];
                const bool met = other.has_begun && other.step == at.step && other.turn == at.turn;
                const bool is_past = other.step > at.step || (other.step == at.step && other.turn > at.turn);
                if (!met && !is_past) {
                    ranks_.stall(rank, at.round, peer, at.begun);
                    break;
                }
            }
        }
    }

    Ranks& ranks_;
    Album& album_;
    std::span<const Round> rounds_;
    std::span<const double> link_beta_;
    bool fair_;
    double now_ = 0;
    std::vector<Position> positions_;
    std::vector<Flow> flows_;
    std::vector<std::uint32_t> free_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<std::vector<std::uint32_t>> on_resource_;
    std::vector<std::uint32_t> changed_, joined_, frontier_, visited_, ready_;
    std::uint32_t visit_ = 0;
    Sharing sharing_;
};

}  // namespace

void run_flows(Ranks& ranks, Album& album, std::span<const Round> rounds, std::span<const double> link_beta,
               std::int64_t first_round, bool fair) {
    Simulation(ranks, album, rounds, link_beta, first_round, fair).run();
}

}  // namespace unisono::simulate
