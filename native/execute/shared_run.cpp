#include "execute/shared_run.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "execute/fence.hpp"
#include "execute/program.hpp"
#include "reduce/copy.hpp"
#include "transport/shm/other_process.hpp"

namespace unisono {

namespace {

/// Bytes that are combined before their results are copied on: they are still in the cache then.
constexpr std::size_t chunk = 128 * 1024;

/// The same of all operands together, where that needs no system call: half of the nearest cache.
constexpr std::size_t small_chunk = 16 * 1024;

/// Of one of them: whole elements.
constexpr std::size_t piece_of(std::size_t operands) {
    constexpr std::size_t least = 1024;
    return std::max(small_chunk / operands / least, std::size_t{1}) * least;
}

/// Bytes of a copy in one piece. Who leaves a call waits for it.
constexpr std::size_t longest_copy = 4 * 1024 * 1024;

/// Of a result that lies apart from the operands.
constexpr std::size_t too_large_for_caches = 4 * 1024 * 1024;

/// Unsigned: what a broken peer says may be any number.
std::uint64_t nanoseconds_of(Clock::duration time) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

bool is_in(const SharedPlace& place, Area area) { return place.area == static_cast<std::int32_t>(area); }

}  // namespace

SharedRun::SharedRun(Neighbours& neighbours, int rank, const SharedPlan& plan, const Request& request,
                     Traffic traffic, Gate::Waiting waiting)
    : neighbours_(neighbours),
      rank_(rank),
      plan_(plan),
      program_(*plan.program),
      in_(request.in),
      out_(request.out),
      traffic_(traffic),
      gate_(neighbours, rank, plan.fingerprint, waiting),
      streams_(in_.address != out_.address && std::max(in_.size, out_.size) >= too_large_for_caches),
      turn_(plan.trials ? plan.trials->next(neighbours.era) : Trials::Turn{}) {
    for (const auto peer : program_.awaited()) waiting.recorder.expect(peer);
    for (const auto peer : program_.used()) waiting.recorder.only_send_to(peer);
}

void SharedRun::go(Rehearsal rehearsal) {
    enter();
    const auto began = turn_.is_timed ? quick_now() : Clock::time_point();
    for (window_ = 0; window_ < plan_.windows; ++window_)
        rehearsal.is_over() ? run_window() : rehearse_window(rehearsal);
    rehearsal.end();
    if (!gate_.has_signalled()) gate_.signal(1);
    if (turn_.is_timed) tell_what_it_did(began);
}

void SharedRun::enter() {
    const auto in = whereabouts(in_, program_.lends_input());
    const auto out = whereabouts(out_, program_.lends_output());
    stages_input_ = in.kind() == Whereabouts::Kind::stage;
    stages_output_ = out.kind() == Whereabouts::Kind::stage;
    gate_.enter(in, out);
    judge_earlier_calls();
}

/// Everybody has entered the call before this one, and told what it did in those before that.
void SharedRun::judge_earlier_calls() {
    auto& tried = neighbours_.tried;
    while (!tried.empty() && tried.front().call + 2 <= gate_.call()) {
        const auto [call, way, trials] = std::move(tried.front());
        tried.erase(tried.begin());
        if (const auto time = taken_by(call)) trials->learn(way, *time);
    }
}

/// If all ranks have told. From when the last one came until all were through; where ranks share cores, what
/// all together had to do: there, who is late may only have been kept from coming by others.
std::optional<Clock::duration> SharedRun::taken_by(std::uint64_t call) const {
    std::uint64_t came = 0, through = 0, work = 0;
    for (int rank = 0; rank < static_cast<int>(neighbours_.ranks.size()); ++rank) {
        const auto& told = board_of(rank).work(call);
        if (told.call.load(std::memory_order_relaxed) != call) return {};
        const auto began = told.began.load(std::memory_order_relaxed),
                   ended = told.ended.load(std::memory_order_relaxed);
        came = std::max(came, began);
        through = std::max(through, ended);
        work += ended - began - told.waited.load(std::memory_order_relaxed);
    }
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(neighbours_.share_cores ? work : through - came));
}

void SharedRun::tell_what_it_did(Clock::time_point began) const {
    auto& work = neighbours_.own->board().work(gate_.call());
    // Relaxed: the store to `progress` in the next call releases them.
    work.began.store(nanoseconds_of(began.time_since_epoch()), std::memory_order_relaxed);
    work.ended.store(nanoseconds_of(quick_now().time_since_epoch()), std::memory_order_relaxed);
    work.waited.store(nanoseconds_of(waited_), std::memory_order_relaxed);
    work.call.store(gate_.call(), std::memory_order_relaxed);
    neighbours_.tried.push_back({gate_.call(), turn_.way, plan_.trials});
}

std::int32_t SharedRun::round() const {
    const auto& rounds = program_.rounds();
    return at_ < rounds.of.size() ? rounds.of[at_] : rounds.last();
}

void SharedRun::run_window() {
    const auto instructions = program_.instructions();
    for (at_ = 0; at_ < instructions.size(); ++at_) run(instructions[at_]);
    add(traffic_.instructions, at_);
}

void SharedRun::rehearse_window(Rehearsal& rehearsal) {
    const auto instructions = program_.instructions();
    for (at_ = 0; at_ < instructions.size(); ++at_) {
        rehearsal.reach(round());
        run(instructions[at_]);
    }
    add(traffic_.instructions, at_);
}

void SharedRun::run(const SharedInstruction& each) {
    switch (each.kind) {
        case SharedKind::wait: {
            const auto began = turn_.is_timed ? quick_now() : Clock::time_point();
            wait(each);
            if (turn_.is_timed) waited_ += quick_now() - began;
            break;
        }
        case SharedKind::signal:
            if (holds(each.when())) gate_.signal(step_of(each, window_));
            break;
        case SharedKind::combine:
            combine(each);
            break;
        case SharedKind::publish:
            if (stages_input_) publish(each);
            break;
        case SharedKind::fetch:
            if (stages_output_) fetch(each);
            break;
    }
}

bool SharedRun::is_about_lent_memory(When when) const {
    return when == When::always || (when == When::input_lent && !stages_input_) ||
           (when == When::output_lent && !stages_output_);
}

bool SharedRun::holds(When when) const { return is_about_lent_memory(when) || plan_.windows > 1; }

/// A place in the stage is used again some windows later: only then does it matter who still reads there.
void SharedRun::wait(const SharedInstruction& wait) {
    if (is_about_lent_memory(wait.when()))
        return gate_.wait_for(wait.peer(), step_of(wait, window_), program_.together(at_));
    if (plan_.windows == 1 || window_ + 1 < plan_.stage_turns) return;
    gate_.wait_for(wait.peer(), step_of(wait, window_ + 1 - plan_.stage_turns), program_.together(at_));
}

void SharedRun::combine(const SharedInstruction& combine) {
    const auto bytes = bytes_of(combine.block());
    if (bytes == 0) return;
    auto& accesses = neighbours_.scratch.accesses;
    accesses.clear();
    const auto references = program_.references(combine);
    for (const auto place : references.first(index(combine.sources()))) add_access(place);
    bool is_fetched = false;
    for (const auto place : references.subspan(index(combine.sources()))) {
        const bool here = is_fetched_by_others(program_.places()[index(place)]);
        is_fetched |= here;
        // The shelf is the last one.
        if (!here && (is_fetched || !is_in(program_.places()[index(place)], Area::shelf))) add_access(place);
    }
    const auto all = std::span<const Access>(accesses);
    const auto sources = all.first(index(combine.sources())), targets = all.subspan(index(combine.sources()));
    for (const auto& each : sources)
        if (each.rank != rank_) add(traffic_.received[index(each.rank)], bytes);
    for (const auto& each : targets)
        if (each.rank != rank_) add(traffic_.sent[index(each.rank)], bytes);
    const bool needs_no_buffer =
        sources.size() == 1 && targets.size() == 1 &&
        (all[0].pointer != nullptr ? !streams_ : all[1].pointer != nullptr && !all[1].is_callers);
    const bool in_reach =
        std::ranges::all_of(all, [](const Access& each) { return each.pointer != nullptr; });
    const auto step = needs_no_buffer ? longest_copy : chunk;
    const auto piece = !needs_no_buffer && in_reach ? piece_of(sources.size()) : step;
    for (std::size_t begin = 0; begin < bytes; begin += step) {
        const auto end = std::min(begin + step, bytes);
        const WriteWindow window(rank_, neighbours_, targets);
        for (std::size_t offset = begin; offset < end; offset += piece)
            combine_chunk(sources, targets, offset, std::min(piece, end - offset));
    }
    require_still_there(sources);
}

void SharedRun::combine_chunk(std::span<const Access> sources, std::span<const Access> targets,
                              std::size_t offset, std::size_t bytes) {
    const auto local = std::ranges::find_if(
        targets, [](const Access& each) { return each.pointer != nullptr && !each.is_callers; });
    const std::byte* result = nullptr;
    if (sources.size() == 1) {
        const auto& source = sources.front();
        if (source.pointer == nullptr && targets.size() == 1 && local != targets.end())
            return read(source, offset, {local->pointer + offset, bytes});
        result = bytes_at(source, offset, bytes, 0);
    } else {
        auto& operands = neighbours_.scratch.operands;
        operands.clear();
        for (const auto& source : sources)
            operands.push_back(bytes_at(source, offset, bytes, operands.size()));
        auto* const into =
            local != targets.end() && !streams_ ? local->pointer + offset : buffer(sources.size());
        const auto& [dtype, op, factor, divisor] = plan_.arithmetic;
        combine_many(op, dtype, into, operands, bytes / size_of(dtype));
        if (plan_.sums_at_once && divisor != 1) divide(dtype, into, bytes / size_of(dtype), divisor);
        result = into;
    }
    for (const auto& target : targets) store(target, offset, result, bytes);
}

/// Will the rank take it from the shelf, because nobody else can write to its output?
bool SharedRun::is_fetched_by_others(const SharedPlace& place) const {
    return plan_.may_stage && is_in(place, Area::out) && place.entry < 0 && place.rank != rank_ &&
           Whereabouts(gate_.line_of(place.rank).out.load(std::memory_order_relaxed)).kind() ==
               Whereabouts::Kind::stage;
}

void SharedRun::publish(const SharedInstruction& publish) {
    const auto bytes = bytes_of(publish.block());
    if (bytes == 0) return;  // there may be no memory for it either
    const auto place = index(publish.place());
    write_to_stage(stage_of(rank_) + plan_.staged[place],
                   in_.address + plan_.offsets[place] + window_ * plan_.window, bytes);
}

/// What is in the stage has been read by other cores, and their caches have to give it up before it can be
/// written. That may take longer than to write to memory.
void SharedRun::write_to_stage(std::byte* to, const std::byte* from, std::size_t bytes) const {
    const auto copy = turn_.way == Way::streamed ? stream : copy_bytes;
    copy(to, from, bytes);
}

void SharedRun::fetch(const SharedInstruction& fetch) const {
    const auto bytes = bytes_of(fetch.block());
    if (bytes == 0) return;
    const auto from = program_.places()[index(fetch.staged())].rank;
    if (from != rank_) add(traffic_.received[index(from)], bytes);
    const auto copy = streams_ ? stream : copy_bytes;
    copy(out_.address + plan_.offsets[index(fetch.place())] + window_ * plan_.window,
         stage_of(from) + plan_.staged[index(fetch.staged())], bytes);
}

/// What others are told about an array: arrays in the heap are used as they are, others as the plan says.
Whereabouts SharedRun::whereabouts(Array array, bool lends) const {
    if (!lends) return Whereabouts::address(nullptr);
    if (const auto offset = neighbours_.own->heap().offset_of(array.address, array.size))
        return Whereabouts::heap(*offset);
    const bool stages = plan_.may_stage && turn_.way != Way::direct;
    return stages ? Whereabouts::stage() : Whereabouts::address(array.address);
}

/// Made where it stays: to copy what was just written, in larger pieces, takes longer than all else here.
void SharedRun::add_access(std::int32_t number) {
    auto& accesses = neighbours_.scratch.accesses;
    const auto& place = program_.places()[index(number)];
    const auto own = place.rank == rank_;
    const auto add_in_stage = [&] {
        accesses.emplace_back(place.rank, stage_of(place.rank) + plan_.staged[index(number)], 0, 0, false,
                              true);
    };
    if (is_in(place, Area::slot) || is_in(place, Area::shelf)) return add_in_stage();
    const auto offset = plan_.offsets[index(number)] + window_ * plan_.window;
    const bool is_input = is_in(place, Area::in);
    if (own) {
        if (!is_input && stages_output_ && place.entry >= 0) return add_in_stage();
        accesses.emplace_back(rank_, (is_input ? in_ : out_).address + offset, 0, 0, false, false);
        return;
    }
    const auto& neighbour = neighbours_.ranks[index(place.rank)];
    const auto& line = gate_.line_of(place.rank);
    const Whereabouts array((is_input ? line.in : line.out).load(std::memory_order_relaxed));
    switch (array.kind()) {
        case Whereabouts::Kind::stage:
            if (!plan_.may_stage || place.entry < 0)
                throw PeerLost::of(rank_, place.rank, "it names a stage where there is none");
            return add_in_stage();
        case Whereabouts::Kind::heap:
            accesses.emplace_back(
                place.rank, in_heap_of(place.rank, array.value() + offset, plan_.sizes[index(place.number)]),
                0, 0, true, false);
            return;
        case Whereabouts::Kind::address:
            break;
    }
    accesses.emplace_back(place.rank, nullptr, array.value() + offset, neighbour.process, true, false);
}

std::byte* SharedRun::stage_of(int rank) const {
    if (plan_.tiny) return board_of(rank).line(gate_.call()).stage.data();
    return inbox_of(rank).stage(gate_.call()).data() + plan_.stage_offset(gate_.call(), window_);
}

/// A peer may be broken: what it says is checked.
std::byte* SharedRun::in_heap_of(int rank, std::uint64_t offset, std::size_t bytes) const {
    const auto heap = neighbours_.ranks[index(rank)].inbox->heap_bytes();
    if (offset > heap.size() || bytes > heap.size() - offset)
        throw PeerLost::of(rank_, rank, "it names an array outside of its shared memory");
    return heap.data() + offset;
}

const std::byte* SharedRun::bytes_at(const Access& access, std::size_t offset, std::size_t bytes,
                                     std::size_t number) {
    if (access.pointer != nullptr) return access.pointer + offset;
    auto* const into = buffer(number);
    read(access, offset, {into, bytes});
    return into;
}

void SharedRun::read(const Access& access, std::size_t offset, std::span<std::byte> into) const {
    naming(access.rank, [&] { read_from(access.process, access.address + offset, into); });
}

/// Who the failure of a system call on another process is about.
template <class Attempt>
void SharedRun::naming(int rank, Attempt attempt) const {
    try {
        attempt();
    } catch (const PeerLost& lost) {
        throw PeerLost::of(rank_, rank, lost.reason);
    } catch (const SystemError& refused) {  // it has given the memory back, or is about to end
        throw PeerLost::of(rank_, rank, refused.what());
    }
}

std::byte* SharedRun::buffer(std::size_t number) {
    auto& buffers = neighbours_.scratch.buffers;
    if (buffers.size() <= number) buffers.resize(number + 1);
    if (!buffers[number]) buffers[number] = std::make_unique<std::byte[]>(chunk);
    return buffers[number].get();
}

void SharedRun::store(const Access& access, std::size_t offset, const std::byte* from, std::size_t bytes) {
    if (access.pointer != nullptr && access.pointer + offset == from) return;
    if (access.pointer == nullptr)
        naming(access.rank, [&] { write_to(access.process, access.address + offset, {from, bytes}); });
    else if (streams_)
        stream(access.pointer + offset, from, bytes);
    else if (access.is_staged)
        write_to_stage(access.pointer + offset, from, bytes);
    else
        copy_bytes(access.pointer + offset, from, bytes);
}

/// A rank that has given up the call may have changed its array while it was read.
void SharedRun::require_still_there(std::span<const Access> sources) const {
    if (std::ranges::none_of(sources, &Access::is_callers)) return;
    // A full barrier between the reads and the look at `failed`, which the owner sets before it returns. Not
    // std::atomic_thread_fence, which gcc refuses to compile for ThreadSanitizer.
    __sync_synchronize();
    for (const auto& source : sources)
        if (source.is_callers &&
            neighbours_.ranks[index(source.rank)].inbox->board().failed.load(std::memory_order_seq_cst) != 0)
            throw PeerLost::given_up(rank_, source.rank);
}

std::size_t SharedRun::bytes_of(std::int32_t block) const {
    const auto size = plan_.sizes[index(block)], start = window_ * plan_.window;
    return size <= start ? 0 : std::min(size - start, plan_.window);
}

}  // namespace unisono
