#pragma once

#include <limits>
#include <optional>

#include "execute/executor.hpp"
#include "execute/frame.hpp"
#include "execute/gate.hpp"
#include "execute/link_scratch.hpp"

namespace unisono {

/// One call on its way. Every instruction advances byte by byte as far as those that it waits for have come.
class Executor::Run {
  public:
    Run(Executor& executor, const LinkPlan& plan, const Request& request);
    void go(Caller& caller);

    /// Of the schedule, from 0: the first one of which something is not done.
    std::int32_t round() const;

  private:
    class Bundle;

    /// Bytes that are sent, reduced or copied before other links get their turn; they stay in the cache.
    static constexpr std::size_t chunk = 128 * 1024;
    static constexpr std::int32_t no_round = std::numeric_limits<std::int32_t>::max();

    static bool is_through(const Lane& lane);
    void reset_positions();
    void reset_lanes();
    bool step();
    std::size_t hold_from(std::int32_t round);
    void release();
    bool send(Lane& lane);
    void collect(const Lane& lane, Bundle& bundle) const;
    bool mark_sent(Lane& lane, const Bundle& bundle, std::size_t taken);
    bool receive(Lane& lane);
    bool receive_header(Lane& lane, std::int32_t row);
    bool receive_block(Lane& lane, std::int32_t row);
    std::size_t reduce_arrived(Lane& lane, std::int32_t row, std::size_t limit);
    bool work_locally();
    bool copy_or_reduce_locally(std::int32_t row);
    void fold(std::int32_t row, std::size_t bytes);
    void combine_into_target(std::int32_t row, const std::byte* other, std::size_t bytes);

    const Instruction& instruction(std::int32_t row) const { return program_.instructions()[index(row)]; }
    Position& position(std::int32_t row) { return scratch_.positions[index(row)]; }
    const Position& position(std::int32_t row) const { return scratch_.positions[index(row)]; }
    bool is_held(std::int32_t row) const { return program_.round_of(row) >= held_from_; }
    std::byte* address(Home home, std::size_t byte) const;
    Frame frame_of(std::int32_t message) const;
    bool may_advance(std::int32_t row, std::size_t& limit) const;
    void advance(std::int32_t row, std::size_t bytes);
    Patience patience() const;
    std::optional<Gate> announce(Watch& watch);
    bool awaits(const Lane& lane) const;
    bool awaits_rank(int peer) const;
    void begin_wait();
    void look_up(Watch& watch, const std::optional<Gate>& gate) const;
    std::vector<int> awaited() const;
    static std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }

    Executor& executor_;
    const LinkPlan& plan_;
    const Program& program_;
    const Request& request_;
    LinkScratch& scratch_;
    std::size_t remaining_;
    std::size_t element_;
    std::int32_t held_from_ = no_round;
    bool has_moved_ = true;    // in the last step: only then there may be work for locals
    bool is_thorough_ = true;  // this step looks at links, too, of which nothing can be used yet
    int looks_ = 0;            // steps that brought nothing
};

}  // namespace unisono
