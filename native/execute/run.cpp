#include "execute/run.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace unisono {

namespace {

/// A look at a socket is a system call. Who waits for one peer looks at the others now and then only: whether
/// they have come to the call, and are still there.
constexpr int looks_per_thorough_one = 16;

constexpr int spins_on_a_wire = 4;

}  // namespace

Executor::Run::Run(Executor& executor, const LinkPlan& plan, const Request& request)
    : executor_(executor),
      plan_(plan),
      program_(*plan.program),
      request_(request),
      scratch_(executor.link_scratch_),
      remaining_(program_.instructions().size()),
      element_(unisono::size_of(plan.arithmetic.dtype)) {
    reset_positions();
    reset_lanes();
    for (const auto& [peer, sends, receives] : program_.traffic())
        receives.empty() ? executor.recorder_->only_send_to(peer) : executor.recorder_->expect(peer);
}

void Executor::Run::reset_positions() {
    auto& [positions, locals, slots, bytes, lanes, links, operands, memory] = scratch_;
    positions.clear();
    bytes.assign(static_cast<std::size_t>(program_.messages()), 0);
    for (const auto& each : program_.instructions()) {
        positions.push_back({plan_.sizes[index(each.block)]});
        if (each.kind == Kind::send || each.kind == Kind::receive)
            bytes[index(each.message)] += positions.back().size;
    }
    locals.assign(program_.locals().begin(), program_.locals().end());
    slots.clear();
    std::size_t end = 0;
    for (std::size_t slot = 0; slot < program_.slots().size(); ++slot) {
        const auto block = plan_.sizes[index(program_.slots()[slot])];
        slots.push_back(end);
        end += ((program_.is_window(slot) ? std::min<std::size_t>(block, chunk) : block) + 63) / 64 * 64;
    }
    if (memory.size() < end) memory.resize(end);
}

void Executor::Run::reset_lanes() {
    scratch_.lanes.clear();
    scratch_.links.clear();
    for (const auto& traffic : program_.traffic()) {
        auto& link = executor_.links_[index(traffic.peer)];
        scratch_.lanes.push_back(Lane{&traffic, &link, traffic.sends.size(), traffic.receives.size()});
        scratch_.links.push_back(link.get());
    }
}

void Executor::Run::go(Caller& caller) {
    Waiter waiter(scratch_.links, patience());
    auto& recorder = *executor_.recorder_;
    Watch watch(executor_.rank_, executor_.host_, executor_.watched(request_, plan_.pairwise), caller);
    const auto gate = announce(watch);
    const auto advance_until = [&](std::size_t left) {
        while (remaining_ > left) {
            if (step()) {
                if (recorder.is_waiting()) recorder.end_wait();
                waiter.reset();
                watch.progress();
                continue;
            }
            if (!waiter.spins_next() && !recorder.is_waiting()) begin_wait();
            if (waiter.pause()) look_up(watch, gate);
        }
    };
    auto rehearsal = plan_.pairwise ? Rehearsal() : executor_.rehearsal();
    while (!rehearsal.is_over()) {
        advance_until(hold_from(rehearsal.next_round()));
        remaining_ > 0 ? rehearsal.reach(round()) : rehearsal.end();
        release();
    }
    advance_until(0);
}

/// A look at sockets takes as long as a hand-over of the core, which the rank that we wait for may need, or
/// anybody else while a wire is slow.
Patience Executor::Run::patience() const {
    auto result = executor_.patience(request_);
    const auto is_socket = [](const Link* link) { return link->bell() == nullptr; };
    if (std::ranges::any_of(scratch_.links, &Link::leaves_host))
        result.spins = std::min(result.spins, spins_on_a_wire);
    if (executor_.host_.more_ranks_than_cores && std::ranges::any_of(scratch_.links, is_socket))
        result.spins = 0;
    return result;
}

std::int32_t Executor::Run::round() const {
    const auto next = std::ranges::find(scratch_.positions, false, &Position::done);
    return remaining_ > 0 ? program_.round_of(static_cast<std::int32_t>(next - scratch_.positions.begin()))
                          : program_.rounds().last();
}

/// Nothing of this round or a later one begins; what is earlier waits for none of it. Returns how many
/// instructions are held.
std::size_t Executor::Run::hold_from(std::int32_t round) {
    held_from_ = round;
    const auto earlier = [&](std::span<const std::int32_t> rows) {
        const auto first = std::ranges::partition_point(rows, [&](auto row) { return !is_held(row); });
        return static_cast<std::size_t>(first - rows.begin());
    };
    for (auto& lane : scratch_.lanes) {
        lane.sends = earlier(lane.traffic->sends);
        lane.receives = earlier(lane.traffic->receives);
    }
    const auto& rounds = program_.rounds().of;
    return static_cast<std::size_t>(rounds.end() - std::ranges::lower_bound(rounds, round));
}

void Executor::Run::release() {
    held_from_ = no_round;
    has_moved_ = true;
    for (auto& lane : scratch_.lanes) {
        lane.sends = lane.traffic->sends.size();
        lane.receives = lane.traffic->receives.size();
    }
}

/// Ranks that share memory tell each other about calls over links, too: somebody may be in another call.
std::optional<Gate> Executor::Run::announce(Watch& watch) {
    if (!executor_.host_.neighbours.own || plan_.pairwise) return {};
    std::optional<Gate> gate(
        std::in_place, executor_.host_.neighbours, executor_.rank_, plan_.fingerprint,
        Gate::Waiting{executor_.patience_at_boards(request_, false), watch, *executor_.recorder_});
    gate->enter(Whereabouts::address(nullptr), Whereabouts::address(nullptr));
    gate->signal(1);
    return gate;
}

bool Executor::Run::is_through(const Lane& lane) {
    return lane.next_send == lane.traffic->sends.size() && lane.next_receive == lane.traffic->receives.size();
}

bool Executor::Run::step() {
    is_thorough_ = has_moved_ || ++looks_ % looks_per_thorough_one == 0;
    bool progress = has_moved_ && work_locally();
    for (auto& lane : scratch_.lanes) {
        try {
            progress |= send(lane);
            progress |= receive(lane);
        } catch (const PeerLost& lost) {
            throw PeerLost::of(executor_.rank_, lane.traffic->peer, lost.reason);
        }
    }
    return has_moved_ = progress;
}

std::byte* Executor::Run::address(Home home, std::size_t byte) const {
    const auto number = index(home.number);
    switch (static_cast<Area>(home.area)) {
        case Area::in:
            return request_.in.address + plan_.in_offsets[number] + byte;  // never a target: Program checks
        case Area::out:
            return request_.out.address + plan_.out_offsets[number] + byte;
        case Area::slot:
            return scratch_.memory.data() + scratch_.slots[number] +
                   (program_.is_window(number) ? byte % chunk : byte);
        case Area::shelf:  // there are none between links: Program checks
            break;
    }
    return nullptr;
}

/// Is there something to do, and up to which byte?
bool Executor::Run::may_advance(std::int32_t row, std::size_t& limit) const {
    const auto& here = position(row);
    limit = here.size;
    for (const auto wait : program_.waits_of(row)) {
        if (position(wait).done) continue;
        if (limit == 0 || instruction(wait).block != instruction(row).block) return false;
        limit = std::min(limit, position(wait).reached);
    }
    if (const auto fold = program_.fold_behind(row); fold >= 0)
        limit =
            std::min({limit, position(fold).reached + chunk, here.reached + chunk - here.reached % chunk});
    return limit > here.reached || here.size == 0;
}

void Executor::Run::advance(std::int32_t row, std::size_t bytes) {
    auto& here = position(row);
    here.reached += bytes;
    if (here.reached == here.size) {
        here.done = true;
        --remaining_;
        add(executor_.counters_.instructions, 1);
    }
}

/// Is it this lane's peer that has to act: to send more, or to make room?
bool Executor::Run::awaits(const Lane& lane) const {
    std::size_t limit = 0;
    const auto& [peer, sends, receives] = *lane.traffic;
    if (lane.next_send < sends.size() && may_advance(sends[lane.next_send], limit)) return true;
    if (lane.next_receive == receives.size()) return false;
    const auto row = receives[lane.next_receive];
    return lane.receiving != instruction(row).message || may_advance(row, limit);
}

/// From here on, only links of peers that have to act are watched: one that has bytes which cannot be used
/// yet would end every sleep at once.
void Executor::Run::begin_wait() {
    executor_.recorder_->begin_wait();
    scratch_.links.clear();
    for (const auto& lane : scratch_.lanes) {
        scratch_.links.push_back(awaits(lane) ? lane.link->get() : nullptr);
        if (scratch_.links.back() != nullptr) executor_.recorder_->wait_for(lane.traffic->peer);
    }
}

void Executor::Run::look_up(Watch& watch, const std::optional<Gate>& gate) const {
    if (!watch.is_time()) return;
    executor_.recorder_->update_wait(Clock::now());
    watch.look(
        {[this](int peer) { return awaits_rank(peer); }, [this] { return awaited(); }, [] { return false; }});
    for (const auto& lane : scratch_.lanes)
        if (gate && !is_through(lane)) gate->compare(lane.traffic->peer);
}

bool Executor::Run::awaits_rank(int peer) const {
    return std::ranges::any_of(
        scratch_.lanes, [&](const Lane& lane) { return lane.traffic->peer == peer && !is_through(lane); });
}

std::vector<int> Executor::Run::awaited() const {
    std::vector<int> ranks;
    for (const auto& lane : scratch_.lanes)
        if (!is_through(lane)) ranks.push_back(lane.traffic->peer);
    return ranks;
}

}  // namespace unisono
