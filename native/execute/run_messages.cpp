/// What a call over links sends and receives.

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "execute/run.hpp"

namespace unisono {

/// What goes to a peer in one system call: blocks, each with the frame of a message that begins with it.
class Executor::Run::Bundle {
  public:
    Bundle() = default;
    Bundle(const Bundle&) = delete;  // the parts point to the frames
    Bundle& operator=(const Bundle&) = delete;

    struct Piece {
        std::int32_t row;
        std::size_t header;  // bytes of the frame that are still to be sent
        std::size_t block;   // bytes
    };

    bool has_room() const { return pieces_ < most && bytes_ < uncut; }
    /// How many of the bytes that could be sent.
    std::size_t portion(std::size_t ready) const { return ready <= uncut ? ready : chunk; }

    void add(std::int32_t row, const Frame& frame, std::size_t header, Bytes block) {
        frames_[pieces_] = frame;
        const auto whole = std::as_bytes(std::span(&frames_[pieces_], 1));
        each_[pieces_++] = {row, header, block.size()};
        bytes_ += block.size();
        parts_[count_++] = whole.last(header);
        parts_[count_++] = block;
    }

    std::span<const Piece> pieces() const { return std::span(each_).first(pieces_); }
    std::span<const Bytes> parts() const { return std::span(parts_).first(count_); }

  private:
    static constexpr std::size_t most = 8;
    /// Bytes that go in one system call: on one host, two ranks that send to each other piece by piece wait
    /// for each other's socket at every piece; more than this leaves the caches on its way.
    static constexpr std::size_t uncut = 512 * 1024;

    std::array<Frame, most> frames_;
    std::array<Piece, most> each_;
    std::array<Bytes, 2 * most> parts_;
    std::size_t pieces_ = 0;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

bool Executor::Run::send(Lane& lane) {
    if (lane.next_send == lane.sends) return false;
    Bundle bundle;
    collect(lane, bundle);
    if (bundle.pieces().empty()) return false;
    return mark_sent(lane, bundle, lane.link->try_send(bundle.parts()));
}

void Executor::Run::collect(const Lane& lane, Bundle& bundle) const {
    std::int32_t message = lane.sending;
    std::size_t header = sizeof(Frame) - lane.header_sent;
    for (auto next = lane.next_send; next < lane.sends && bundle.has_room(); ++next) {
        const auto row = lane.traffic->sends[next];
        std::size_t limit = 0;
        if (!may_advance(row, limit)) break;
        if (std::exchange(message, instruction(row).message) != instruction(row).message)
            header = sizeof(Frame);
        const auto& [size, reached, done] = position(row);
        const std::size_t bytes = bundle.portion(limit - reached);
        bundle.add(row, frame_of(message), header, {address(instruction(row).source, reached), bytes});
        header = 0;
        if (reached + bytes < size) break;
    }
}

bool Executor::Run::mark_sent(Lane& lane, const Bundle& bundle, std::size_t taken) {
    bool progress = taken > 0;
    for (const auto& [row, header, block] : bundle.pieces()) {
        if (std::exchange(lane.sending, instruction(row).message) != instruction(row).message)
            lane.header_sent = 0;
        const std::size_t of_header = std::min(taken, header), of_block = std::min(taken - of_header, block);
        lane.header_sent += of_header;
        taken -= of_header + of_block;
        if (of_header < header) break;
        add(executor_.counters_.sent[index(lane.traffic->peer)], of_block);
        advance(row, of_block);
        if (!position(row).done) break;
        progress = true;
        ++lane.next_send;
    }
    return progress;
}

bool Executor::Run::receive(Lane& lane) {
    bool progress = false;
    while (lane.next_receive < lane.receives) {
        const auto row = lane.traffic->receives[lane.next_receive];
        if (std::size_t limit = 0; !is_thorough_ && !may_advance(row, limit)) break;
        if (lane.receiving != instruction(row).message) {
            const auto before = lane.header_received;
            const bool complete_header = receive_header(lane, row);
            progress |= complete_header || lane.header_received != before;
            if (!complete_header) break;
        }
        progress |= receive_block(lane, row);
        if (!position(row).done) break;
        ++lane.next_receive;
    }
    return progress;
}

bool Executor::Run::receive_header(Lane& lane, std::int32_t row) {
    const auto message = instruction(row).message;
    // What is going to be reduced is read into the link's memory anyway: with its header, in one call.
    const bool reduces = instruction(row).how != How::copy;
    if (lane.header_received == 0 && reduces && lane.link->peek(sizeof(Frame)).empty()) return false;
    const auto rest = std::span(lane.in).subspan(lane.header_received);
    lane.header_received += lane.link->try_receive(rest);
    if (lane.header_received < sizeof(Frame)) return false;
    require_frame(lane.in, frame_of(message),
                  {.sender = lane.traffic->peer,
                   .receiver = executor_.rank_,
                   .messages = executor_.recorder_->received_so_far(lane.traffic->peer)});
    lane.header_received = 0;
    lane.receiving = message;
    executor_.recorder_->arrived(lane.traffic->peer);
    return true;
}

bool Executor::Run::receive_block(Lane& lane, std::int32_t row) {
    std::size_t limit = 0;
    if (!may_advance(row, limit)) return false;
    const std::size_t done = position(row).reached, rest = std::min(limit - done, chunk);
    std::size_t received = 0;
    if (position(row).size > 0) {
        const bool reduces = instruction(row).how != How::copy;
        received = reduces ? reduce_arrived(lane, row, rest)
                           : lane.link->try_receive({address(instruction(row).target, done), rest});
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

/// Calls of two ranks have the number of the next call of all ranks: links keep the order of those between.
Frame Executor::Run::frame_of(std::int32_t message) const {
    return {executor_.sequence_ | (plan_.pairwise ? in_pairs : 0), plan_.fingerprint,
            scratch_.bytes[index(message)]};
}

}  // namespace unisono
