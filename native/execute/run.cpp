#include "execute/run.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace unisono {

namespace {

/// Bytes that are reduced or copied before other links get their turn; they stay in the cache.
constexpr std::size_t chunk = 128 * 1024;

}  // namespace

Executor::Run::Run(Executor& executor, const LinkPlan& plan, const Request& request)
    : executor_(executor),
      plan_(plan),
      program_(*plan.program),
      request_(request),
      message_bytes_(static_cast<std::size_t>(program_.messages())),
      progress_(program_.instructions().size()),
      done_(program_.instructions().size()),
      remaining_(program_.instructions().size()),
      element_(unisono::size_of(plan.arithmetic.dtype)),
      locals_(program_.locals()) {
    std::size_t scratch = 0;
    for (const auto block : program_.slots()) {
        slot_offsets_.push_back(scratch);
        scratch += (plan.sizes[index(block)] + 63) / 64 * 64;
    }
    if (executor.scratch_.size() < scratch) executor.scratch_.resize(scratch);
    for (const auto& each : program_.instructions())
        if (each.kind == Kind::send || each.kind == Kind::receive)
            message_bytes_[index(each.message)] += plan.sizes[index(each.block)];
    for (const auto& traffic : program_.traffic())
        lanes_.push_back(Lane{&traffic, &executor.links_[index(traffic.peer)], traffic.sends.size(),
                              traffic.receives.size()});
    for (const auto& [peer, sends, receives] : program_.traffic())
        receives.empty() ? executor.recorder_->only_send_to(peer) : executor.recorder_->expect(peer);
}

void Executor::Run::go(Caller& caller) {
    std::vector<const Link*> links;
    for (const auto& lane : lanes_) links.push_back(lane.link->get());
    Waiter waiter(links, executor_.patience(request_));
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

std::int32_t Executor::Run::round() const {
    const auto next = std::ranges::find(done_, 0) - done_.begin();
    return remaining_ > 0 ? program_.round_of(static_cast<std::int32_t>(next)) : program_.rounds().last();
}

/// Nothing of this round or a later one begins; what is earlier waits for none of it. Returns how many
/// instructions are held.
std::size_t Executor::Run::hold_from(std::int32_t round) {
    const auto is_earlier = [&](std::int32_t row) { return program_.round_of(row) < round; };
    const auto earlier = [&](std::span<const std::int32_t> rows) {
        return static_cast<std::size_t>(std::ranges::partition_point(rows, is_earlier) - rows.begin());
    };
    for (auto& lane : lanes_) {
        lane.sends = earlier(lane.traffic->sends);
        lane.receives = earlier(lane.traffic->receives);
    }
    locals_ = program_.locals().first(earlier(program_.locals()));
    const auto& rounds = program_.rounds().of;
    return static_cast<std::size_t>(rounds.end() - std::ranges::lower_bound(rounds, round));
}

void Executor::Run::release() {
    for (auto& lane : lanes_) {
        lane.sends = lane.traffic->sends.size();
        lane.receives = lane.traffic->receives.size();
    }
    locals_ = program_.locals();
}

/// Ranks that share memory tell each other about calls over links, too: somebody may be in another call.
std::optional<Gate> Executor::Run::announce(Watch& watch) {
    if (!executor_.host_.neighbours.own || plan_.pairwise) return {};
    std::optional<Gate> gate(std::in_place, executor_.host_.neighbours, executor_.rank_, plan_.fingerprint,
                             Gate::Waiting{executor_.patience(request_), watch, *executor_.recorder_});
    gate->enter(Whereabouts::address(nullptr), Whereabouts::address(nullptr));
    gate->signal(1);
    return gate;
}

bool Executor::Run::is_through(const Lane& lane) {
    return lane.next_send == lane.traffic->sends.size() && lane.next_receive == lane.traffic->receives.size();
}

bool Executor::Run::step() {
    bool progress = false;
    for (const auto row : locals_) progress |= !done_[index(row)] && copy_or_reduce_locally(row);
    for (auto& lane : lanes_) {
        try {
            progress |= send(lane);
            progress |= receive(lane);
        } catch (const PeerLost& lost) {
            throw PeerLost::of(executor_.rank_, lane.traffic->peer, lost.reason);
        }
    }
    return progress;
}

bool Executor::Run::send(Lane& lane) {
    bool progress = false;
    while (lane.next_send < lane.sends) {
        const auto row = lane.traffic->sends[lane.next_send];
        std::size_t limit = 0;
        if (!may_advance(row, limit)) break;
        const auto message = instruction(row).message;
        if (lane.sending != message) {
            lane.sending = message;
            lane.header_sent = 0;
            lane.out = Frame{number_of_call(lane.traffic->peer, true), plan_.fingerprint,
                             message_bytes_[index(message)]};
        }
        const auto header = std::as_bytes(std::span(&lane.out, 1)).subspan(lane.header_sent);
        const std::size_t done = progress_[index(row)];
        const std::array<Bytes, 2> parts{header,
                                         Bytes(address(instruction(row).source) + done, limit - done)};
        const std::size_t taken = lane.link->try_send(parts);
        const std::size_t of_header = std::min(taken, header.size());
        lane.header_sent += of_header;
        add(executor_.counters_.sent[index(lane.traffic->peer)], taken - of_header);
        progress |= taken > 0;
        if (lane.header_sent < sizeof(Frame)) break;
        advance(row, taken - of_header);
        if (!done_[index(row)]) break;
        ++lane.next_send;
    }
    return progress;
}

bool Executor::Run::receive(Lane& lane) {
    bool progress = false;
    while (lane.next_receive < lane.receives) {
        const auto row = lane.traffic->receives[lane.next_receive];
        if (lane.receiving != instruction(row).message) {
            const auto before = lane.header_received;
            const bool complete_header = receive_header(lane, instruction(row).message);
            progress |= complete_header || lane.header_received != before;
            if (!complete_header) break;
        }
        progress |= receive_block(lane, row);
        if (!done_[index(row)]) break;
        ++lane.next_receive;
    }
    return progress;
}

bool Executor::Run::receive_header(Lane& lane, std::int32_t message) {
    const auto rest = std::span(lane.in).subspan(lane.header_received);
    lane.header_received += lane.link->try_receive(rest);
    if (lane.header_received < sizeof(Frame)) return false;
    require_frame(
        lane.in,
        {number_of_call(lane.traffic->peer, false), plan_.fingerprint, message_bytes_[index(message)]},
        {.sender = lane.traffic->peer, .receiver = executor_.rank_});
    lane.header_received = 0;
    lane.receiving = message;
    executor_.recorder_->arrived(lane.traffic->peer);
    return true;
}

bool Executor::Run::receive_block(Lane& lane, std::int32_t row) {
    std::size_t limit = 0;
    if (!may_advance(row, limit)) return false;
    const std::size_t done = progress_[index(row)], rest = std::min(limit - done, chunk);
    std::size_t received = 0;
    if (size_of_block(row) > 0) {
        const bool reduces = instruction(row).how != How::copy;
        auto* target = address(instruction(row).target) + done;
        received = reduces ? reduce_arrived(lane, row, rest) : lane.link->try_receive({target, rest});
        add(executor_.counters_.received[index(lane.traffic->peer)], received);
        if (received == 0) return false;
    }
    advance(row, received);
    return true;
}

std::size_t Executor::Run::reduce_arrived(Lane& lane, std::int32_t row, std::size_t limit) {
    // Bytes of an element may arrive apart: the first ones wait in `partial`, and count when the last has
    // come.
    if (lane.partial_bytes > 0) {
        const auto missing =
            std::span(lane.partial).subspan(lane.partial_bytes, element_ - lane.partial_bytes);
        lane.partial_bytes += lane.link->try_receive(missing);
        if (lane.partial_bytes < element_) return 0;
        lane.partial_bytes = 0;
        combine_into_target(row, lane.partial.data(), element_);
        return element_;
    }
    const auto arrived = lane.link->peek(limit);
    const std::size_t whole = arrived.size() / element_ * element_;
    if (whole > 0) {
        combine_into_target(row, arrived.data(), whole);
        lane.link->consume(whole);
    } else if (!arrived.empty() && limit >= element_) {
        lane.partial_bytes = lane.link->try_receive(std::span(lane.partial).first(element_));
    }
    return whole;
}

bool Executor::Run::copy_or_reduce_locally(std::int32_t row) {
    std::size_t limit = 0;
    if (!may_advance(row, limit)) return false;
    const std::size_t done = progress_[index(row)];
    const std::size_t bytes = std::min(limit - done, chunk) / element_ * element_;
    if (bytes == 0) {
        if (size_of_block(row) > 0) return false;
        advance(row, 0);  // of no bytes: there may be no memory for them either
        return true;
    }
    if (instruction(row).kind == Kind::fold) {
        fold(row, bytes);
        return true;
    }
    const auto* source = address(instruction(row).source) + done;
    if (instruction(row).how == How::copy)
        std::memmove(address(instruction(row).target) + done, source, bytes);
    else
        combine_into_target(row, source, bytes);
    advance(row, bytes);
    return true;
}

void Executor::Run::fold(std::int32_t row, std::size_t bytes) {
    const std::size_t done = progress_[index(row)];
    operands_.clear();
    for (const auto& home : program_.operands_of(instruction(row))) operands_.push_back(address(home) + done);
    combine_many(plan_.arithmetic.op, plan_.arithmetic.dtype, address(instruction(row).target) + done,
                 operands_, bytes / element_);
    advance(row, bytes);
}

void Executor::Run::combine_into_target(std::int32_t row, const std::byte* other, std::size_t bytes) {
    const auto& [kind, peer, how, message, block, target, source, operand] = instruction(row);
    auto* into = address(target) + progress_[index(row)];
    const auto* present = address(operand) + progress_[index(row)];
    if (into != present) std::memcpy(into, present, bytes);
    combine(plan_.arithmetic.op, plan_.arithmetic.dtype, into, other, bytes / element_,
            how == How::reduce_before);
}

/// Calls of all ranks are counted together, those of a pair for each direction; the first bit tells them
/// apart.
std::uint64_t Executor::Run::number_of_call(int peer, bool sending) const {
    if (!plan_.pairwise) return executor_.sequence_;
    const auto& counted = sending ? executor_.sent_in_pairs_ : executor_.received_in_pairs_;
    return in_pairs | counted[index(peer)];
}

std::byte* Executor::Run::address(Home home) const {
    const auto number = index(home.number);
    switch (static_cast<Area>(home.area)) {
        case Area::in:
            return request_.in.address + plan_.in_offsets[number];  // never a target: Program checks
        case Area::out:
            return request_.out.address + plan_.out_offsets[number];
        case Area::slot:
            return executor_.scratch_.data() + slot_offsets_[number];
    }
    return nullptr;
}

/// Is there something to do, and up to which byte?
bool Executor::Run::may_advance(std::int32_t row, std::size_t& limit) const {
    limit = size_of_block(row);
    for (const auto wait : program_.waits_of(row)) {
        if (done_[index(wait)]) continue;
        if (limit == 0 || instruction(wait).block != instruction(row).block) return false;
        limit = std::min(limit, progress_[index(wait)]);
    }
    return limit > progress_[index(row)] || size_of_block(row) == 0;
}

void Executor::Run::advance(std::int32_t row, std::size_t bytes) {
    progress_[index(row)] += bytes;
    if (progress_[index(row)] == size_of_block(row)) {
        done_[index(row)] = 1;
        --remaining_;
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

void Executor::Run::begin_wait() const {
    executor_.recorder_->begin_wait();
    for (const auto& lane : lanes_)
        if (awaits(lane)) executor_.recorder_->wait_for(lane.traffic->peer);
}

void Executor::Run::look_up(Watch& watch, const std::optional<Gate>& gate) const {
    if (!watch.is_time()) return;
    executor_.recorder_->update_wait(Clock::now());
    watch.look(
        {[this](int peer) { return awaits_rank(peer); }, [this] { return awaited(); }, [] { return false; }});
    for (const auto& lane : lanes_)
        if (gate && !is_through(lane)) gate->compare(lane.traffic->peer);
}

bool Executor::Run::awaits_rank(int peer) const {
    return std::ranges::any_of(
        lanes_, [&](const Lane& lane) { return lane.traffic->peer == peer && !is_through(lane); });
}

std::vector<int> Executor::Run::awaited() const {
    std::vector<int> ranks;
    for (const auto& lane : lanes_)
        if (!is_through(lane)) ranks.push_back(lane.traffic->peer);
    return ranks;
}

}  // namespace unisono
