#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/fork.hpp"
#include "transport/link.hpp"
#include "transport/shm/bell.hpp"

namespace unisono {

/// How long to wait in which way.
struct Patience {
    /// Looks without giving the core away; fewer if they take longer than spin_time (a foreign program
    /// may have the core of the rank that we wait for).
    int spins = 1000;
    std::chrono::microseconds spin_time{20};
    /// Hand-overs of the core before the first sleep, at least for yield_time: a wake-up from sleep costs
    /// about 80 us, a hand-over 2.
    int yields = 200;
    std::chrono::microseconds yield_time{200};
    /// The first of these, in which the caller keeps what it has, above all the interpreter: to hand that
    /// over and to take it back costs more than most waits of ranks that share a core.
    int kept_yields = 0;
    /// Yields that took this long gave the core to somebody; more of them only prolong the wait.
    static constexpr std::chrono::milliseconds longest_yielding{2};
    /// Spins only while no other rank needs this core: then it is another core that is late, and to give
    /// this one away would only let ranks run that wait for that, too.
    bool shares_its_core = false;
    /// Gives it away at least once in a call, if it waits at all.
    bool takes_turns = false;

    /// More ranks than cores is normal: then the rank that we wait for may need our core.
    static Patience with_more_ranks_than_cores() { return {.spins = 20, .kept_yields = 3}; }

    /// The same, where ranks tell each other on their boards who needs a core.
    static Patience of_ranks_that_share_cores(bool takes_turns) {
        return {.spins = 20'000, .kept_yields = 3, .shares_its_core = true, .takes_turns = takes_turns};
    }

    /// The caller computes meanwhile, and gets what it is given: who is woken from sleep runs at once, who
    /// yields waits until the caller's time slice is over.
    static Patience in_the_background() { return {.spins = 200, .yields = 0, .yield_time = {}}; }
};

/// What to do between two looks at the links that brought nothing: spin, then yield, then sleep. A sleep is
/// short enough to look at deadlines and aborts after it.
class Waiter {
  public:
    /// Waits for any of the links, which outlive it. The links that have no socket to watch have one
    /// bell, that of the inbox that they read from. The caller may replace some by nothing, and put them
    /// back, while it waits.
    Waiter(std::span<const Link* const> links, Patience patience);
    Waiter(std::span<const Link* const> links, bool more_ranks_than_cores);
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    ~Waiter();

    /// After a look at the links that brought nothing. The caller has to look at all of them between any
    /// two calls: a sleep counts on that. Returns whether it gave the core away, so that time may have
    /// passed.
    bool pause();

    /// After progress, and when the waiting is over.
    void reset();

    /// Will the next pause still be a spin? A lock that others need is better released before one that is
    /// not.
    bool spins_next() const { return stage_ == Stage::spin; }

  private:
    enum class Stage { spin, yield, sleep };

    void spin();
    void yield();
    void sleep();
    void watch_sockets();
    void poll_sockets(std::chrono::milliseconds timeout);

    std::span<const Link* const> links_;
    Patience patience_;
    Bell* bell_ = nullptr;
    Origin origin_;
    Stage stage_;
    int count_ = 0;  // in this stage
    Clock::time_point since_;
    bool entered_ = false;  // the bell
    bool bells_turn_ = true;
    std::uint32_t ticket_ = 0;
    std::vector<pollfd> sockets_;
};

}  // namespace unisono
