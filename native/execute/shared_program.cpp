#include "execute/shared_program.hpp"

#include <algorithm>

#include "execute/check.hpp"
#include "execute/program.hpp"

namespace unisono {

namespace {

bool has(const std::vector<std::int32_t>& ranks, std::int32_t rank) {
    return std::ranges::find(ranks, rank) != ranks.end();
}

bool is_in(const SharedPlace& place, Area area) { return place.area == static_cast<std::int32_t>(area); }

/// Always in the stage.
bool is_staged(const SharedPlace& place) { return is_in(place, Area::slot) || is_in(place, Area::shelf); }

/// Which block a slot is made for is up to the plan: SharedPlan::check compares sizes.
bool fits(const SharedPlace& place, std::int32_t block) { return is_staged(place) || place.number == block; }

}  // namespace

SharedProgram::SharedProgram(int rank, int ranks, int blocks, int steps, std::vector<SharedPlace> places,
                             std::vector<SharedInstruction> instructions,
                             std::vector<std::int32_t> references, Rounds rounds)
    : blocks_(blocks),
      steps_(steps),
      places_(std::move(places)),
      instructions_(std::move(instructions)),
      references_(std::move(references)),
      rounds_(fitting(std::move(rounds), instructions_.size())) {
    check(rank, ranks);
    for (const auto& each : instructions_) {
        lends_input_ |= each.kind == SharedKind::publish;
        lends_output_ |= each.kind == SharedKind::fetch;
        if (each.kind == SharedKind::wait && each.when() == When::always && !has(awaited_, each.peer()))
            awaited_.push_back(each.peer());
    }
    find_waits_together();
    for (const auto& place : places_)
        if (place.rank != rank && !has(awaited_, place.rank) && !has(used_, place.rank))
            used_.push_back(place.rank);
}

/// From the last one to the first. Until its next signal, nobody else gets on by what the rank does.
void SharedProgram::find_waits_together() {
    together_.resize(instructions_.size());
    const SharedInstruction* next = nullptr;
    std::uint64_t ranks = 0;
    int waits = 0;
    for (auto i = instructions_.size(); i-- > 0;) {
        const auto& each = instructions_[i];
        if (each.kind == SharedKind::signal) next = nullptr;
        if (each.kind != SharedKind::wait) continue;
        const bool goes_on = next != nullptr && next->step() == each.step() && next->when() == each.when();
        ranks = Ranks::of(each.peer()) | (goes_on ? ranks : 0);
        together_[i] = ranks;
        next = &each;
        waits += each.when() == When::always ? 1 : 0;
    }
    waits_for_one_ = waits == 1;
}

std::span<const std::int32_t> SharedProgram::references(const SharedInstruction& combine) const {
    return std::span(references_)
        .subspan(static_cast<std::size_t>(combine.first()),
                 static_cast<std::size_t>(combine.sources() + combine.targets()));
}

/// Targets may turn out to be fetched from the shelf, or the shelf to be of no use.
bool SharedProgram::keeps_a_result(const SharedInstruction& combine) const {
    const auto targets = references(combine).subspan(static_cast<std::size_t>(combine.sources()));
    const auto is_shelf = [&](std::int32_t number) {
        return is_in(places_[static_cast<std::size_t>(number)], Area::shelf);
    };
    return std::ranges::none_of(targets.first(targets.size() - 1), is_shelf) &&
           !(targets.size() == 1 && is_shelf(targets.front()));
}

void SharedProgram::check(int rank, int ranks) const {
    const auto known_ranks = static_cast<std::size_t>(ranks),
               known_blocks = static_cast<std::size_t>(blocks_);
    require(blocks_ >= 0 && steps_ >= 0 && ranks > 0 && within(rank, known_ranks), 0, "a program of no rank");
    for (const auto& each : places_) {
        require(within(each.rank, known_ranks), 0, "a place of no rank");
        require(within(each.area, 4), 0, "a place in no area");
        require(is_staged(each) ? each.entry >= 0 : within(each.number, known_blocks), 0,
                "a place for nothing");
    }
    const auto place = [&](std::int32_t number) { return places_[static_cast<std::size_t>(number)]; };
    for (const auto reference : references_) require(within(reference, places_.size()), 0, "no such place");
    for (std::size_t i = 0; i < instructions_.size(); ++i) {
        const auto& each = instructions_[i];
        switch (each.kind) {
            case SharedKind::wait:
                require(within(each.peer(), known_ranks) && each.peer() != rank, i, "waits for nobody");
                [[fallthrough]];
            case SharedKind::signal:
                require(each.step() > 0 && each.step() <= steps_ &&
                            within(static_cast<std::int32_t>(each.when()), 4),
                        i, "no such step");
                break;
            case SharedKind::combine:
                require(within(each.block(), known_blocks), i, "no such block");
                require(each.first() >= 0 && each.sources() > 0 && each.targets() > 0, i, "combines nothing");
                require(static_cast<std::size_t>(each.first()) + static_cast<std::size_t>(each.sources()) +
                                static_cast<std::size_t>(each.targets()) <=
                            references_.size(),
                        i, "combines what is not there");
                for (const auto reference : references(each))
                    require(fits(place(reference), each.block()), i, "a place of another block");
                for (const auto target : references(each).subspan(static_cast<std::size_t>(each.sources())))
                    require(!is_in(place(target), Area::in), i, "writes into an input");
                for (const auto source : references(each).first(static_cast<std::size_t>(each.sources())))
                    require(!is_in(place(source), Area::shelf), i, "combines what is to be fetched");
                require(keeps_a_result(each), i, "leaves its result to nobody");
                break;
            case SharedKind::publish:
            case SharedKind::fetch:
                require(within(each.place(), places_.size()) && within(each.block(), known_blocks), i,
                        "no such place");
                require(is_in(place(each.place()), each.kind == SharedKind::publish ? Area::in : Area::out) &&
                            fits(place(each.place()), each.block()),
                        i, "a place of another block");
                require(place(each.place()).rank == rank, i, "not a place of the rank's own");
                if (each.kind == SharedKind::publish) {
                    require(place(each.place()).entry >= 0, i, "not a place of the rank's own stage");
                    break;
                }
                require(within(each.staged(), places_.size()), i, "no such place");
                require(each.staged() == each.place() ? place(each.place()).entry >= 0
                                                      : is_in(place(each.staged()), Area::shelf),
                        i, "fetches from nowhere");
                break;
            default:
                require(false, i, "unknown kind");
        }
    }
}

}  // namespace unisono
