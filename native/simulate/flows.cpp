#include "simulate/flows.hpp"

#include <algorithm>
#include <queue>

#include "simulate/under_way.hpp"

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

struct Sent {
    std::uint32_t step;
    std::uint32_t message;
    std::int64_t round;
    double ready, began, alone;
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
    Simulation(Ranks& ranks, Album& album, std::span<const Round> rounds, const Network& network,
               std::int64_t first_round)
        : ranks_(ranks),
          album_(album),
          rounds_(rounds),
          network_(network),
          ports_(static_cast<std::uint32_t>(network.ports)),
          positions_(ranks.size()),
          under_way_(2 * network.ports + network.link_beta.size()) {
        for (Position& position : positions_) position.round = first_round;
    }

    void run() {
        for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
            if (ranks_.begin[rank] < never) events_.push({ranks_.begin[rank], Kind::begins, rank, 0});
        while (!events_.empty()) {
            advance(events_.top().time);
            for (const UnderWay::Ending& ending : under_way_.share(now_))
                events_.push({ending.time, Kind::ends, ending.flow, ending.version});
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
            else if (event.version == under_way_.version(event.index))
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
        const std::uint32_t flow = under_way_.create();
        if (flow == sent_.size()) sent_.emplace_back();
        sent_[flow] = {mine.step, m, mine.round, now_, 0, 0};
        if (round.start[m] > 0)
            events_.push({now_ + round.start[m], Kind::moves, flow, under_way_.version(flow)});
        else
            move(flow);
    }

    void move(std::uint32_t flow) {
        Sent& sent = sent_[flow];
        const Round& round = rounds_[sent.step];
        const std::uint32_t m = sent.message;
        const auto source = static_cast<std::uint32_t>(round.source[m]);
        const auto target = static_cast<std::uint32_t>(round.target[m]);
        sent.began = now_;
        const double weight = network_.fair && round.nbytes[m] > 0 ? 1 / round.nbytes[m] : 1;
        under_way_.set(flow, network_.fair ? 0 : order(sent.round, source), weight, now_);
        if (round.out[m] > 0) under_way_.enter(flow, source % ports_, round.out[m]);
        if (round.into[m] > 0) under_way_.enter(flow, ports_ + target % ports_, round.into[m]);
        if (round.nbytes[m] > 0)
            for (const std::uint32_t link : round.route(m))
                under_way_.enter(flow, 2 * ports_ + link, round.nbytes[m] * network_.link_beta[link]);
        sent.alone = under_way_.alone(flow);
        if (sent.alone <= 0) end(flow);
    }

    /// Older rounds first, and in a round the earlier parts of a vector.
    std::int64_t order(std::int64_t round, std::uint32_t rank) const {
        const auto parts = static_cast<std::int64_t>(ranks_.size() / ports_);
        return round * parts + rank / ports_;
    }

    void end(std::uint32_t flow) {
        under_way_.remove(flow);
        const Sent sent = sent_[flow];
        const Round& round = rounds_[sent.step];
        const std::int32_t source = round.source[sent.message], target = round.target[sent.message];
        if (source != target)
            album_.add({sent.round, source, target, round.nbytes[sent.message], sent.alone, sent.ready,
                        sent.began, now_});
        count_down(static_cast<std::uint32_t>(source), round, sent.message);
        if (target != source) count_down(static_cast<std::uint32_t>(target), round, sent.message);
    }

    void count_down(std::uint32_t rank, const Round& round, std::uint32_t m) {
        Position& at = positions_[rank];
        if (--at.open > 0) return;
        ranks_.account(rank, round.messages(), m, 1);
        go_on(at, round);
        ready_.push_back(rank);
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
    const Network& network_;
    std::uint32_t ports_;
    double now_ = 0;
    std::vector<Position> positions_;
    std::vector<Sent> sent_;  // by flow
    UnderWay under_way_;
    std::vector<std::uint32_t> ready_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

void run_flows(Ranks& ranks, Album& album, std::span<const Round> rounds, const Network& network,
               std::int64_t first_round) {
    Simulation(ranks, album, rounds, network, first_round).run();
}

}  // namespace unisono::simulate
