#pragma once

#include <cstring>
#include <optional>
#include <string>

#include "execute/executor.hpp"
#include "execute/frame.hpp"
#include "execute/gate.hpp"
#include "reduce/reduce.hpp"

namespace unisono {

/// One call on its way. Every instruction advances byte by byte as far as those that it waits for have come.
class Executor::Run {
  public:
    Run(Executor& executor, const LinkPlan& plan, const Request& request);
    void go(Caller& caller);

    /// Of the schedule, from 0: the first one of which something is not done.
    std::int32_t round() const;

  private:
    /// How far the traffic with one peer is.
    struct Lane {
        const Program::Traffic* traffic;
        CountedLink* link;
        std::size_t sends;     // as many of the traffic's may go on now: all, unless they are held
        std::size_t receives;  // likewise
        std::size_t next_send = 0;
        std::size_t next_receive = 0;
        std::size_t header_sent = 0;      // bytes of the frame of the message that is being sent
        std::size_t header_received = 0;  // bytes of the frame of the message that is being received
        std::int32_t sending = -1;        // message
        std::int32_t receiving = -1;      // message
        Frame out{};
        std::array<std::byte, sizeof(Frame)> in{};
        std::array<std::byte, 8> partial{};  // of an element whose other bytes have not arrived yet
        std::size_t partial_bytes = 0;
    };

    static bool is_through(const Lane& lane);
    bool step();
    std::size_t hold_from(std::int32_t round);
    void release();
    bool send(Lane& lane);
    bool receive(Lane& lane);
    bool receive_header(Lane& lane, std::int32_t message);
    bool receive_block(Lane& lane, std::int32_t row);
    std::size_t reduce_arrived(Lane& lane, std::int32_t row, std::size_t limit);
    bool copy_or_reduce_locally(std::int32_t row);
    void fold(std::int32_t row, std::size_t bytes);
    void combine_into_target(std::int32_t row, const std::byte* other, std::size_t bytes);

    std::size_t size_of_block(std::int32_t row) const { return plan_.sizes[index(instruction(row).block)]; }
    const Instruction& instruction(std::int32_t row) const { return program_.instructions()[index(row)]; }
    std::byte* address(Home home) const;
    std::uint64_t number_of_call(int peer, bool sending) const;
    bool may_advance(std::int32_t row, std::size_t& limit) const;
    void advance(std::int32_t row, std::size_t bytes);
    std::optional<Gate> announce(Watch& watch);
    bool awaits(const Lane& lane) const;
    bool awaits_rank(int peer) const;
    void begin_wait() const;
    void look_up(Watch& watch, const std::optional<Gate>& gate) const;
    std::vector<int> awaited() const;
    static std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

    Executor& executor_;
    const LinkPlan& plan_;
    const Program& program_;
    const Request& request_;
    std::vector<std::size_t> slot_offsets_;
    std::vector<std::uint64_t> message_bytes_;
    std::vector<std::size_t> progress_;
    std::vector<char> done_;
    std::size_t remaining_;
    std::size_t element_;
    std::vector<Lane> lanes_;
    std::span<const std::int32_t> locals_;    // those that are not held
    std::vector<const std::byte*> operands_;  // of a fold
};

}  // namespace unisono
