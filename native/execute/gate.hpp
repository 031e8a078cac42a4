#pragma once

#include <cstdint>
#include <optional>

#include "execute/neighbours.hpp"
#include "execute/watch.hpp"
#include "observe/recorder.hpp"
#include "transport/wait.hpp"

namespace unisono {

/// One call, as the ranks of a host tell each other about it on their boards.
class Gate {
  public:
    /// How to wait, who watches it, and who keeps the record of it.
    struct Waiting {
        Patience patience;
        Watch& watch;
        Recorder& recorder;
    };

    Gate(Neighbours& neighbours, int rank, std::uint64_t fingerprint, Waiting waiting);

    std::uint64_t call() const { return call_; }

    /// Before anything else: nobody uses the line and the stage of the call before the last one any more (see
    /// Board). Tells the others where the arrays are, with the first signal.
    void enter(Whereabouts in, Whereabouts out);

    /// This rank has come to a step; steps count from 1. Step 0 is told by who waits for long: see look_up.
    void signal(std::uint64_t step);
    bool has_signalled() const { return has_signalled_; }

    /// Returns when the peer has come to a step. Mismatch if it is in another call.
    void wait_for(int peer, std::uint64_t step, std::uint64_t together);

    /// Mismatch if the peer has entered another call than this one. Does not wait.
    void compare(int peer) const;

    const Line& line_of(int peer) const { return neighbour(peer).inbox->board().line(call_); }

  private:
    /// Returns whether the time has come to look at the clock, for who wants to know when it was reached.
    bool wait_until(int peer, const Line& line, std::uint64_t moment, std::uint64_t together);
    std::optional<int> spin_until(int peer, const Line& line, std::uint64_t moment);
    void require_that_nobody_has_given_up();
    bool is_core_needed(std::uint64_t moment) const;
    bool has_another_got_all() const;
    template <class Condition>
    bool any_on_this_core(Condition is_so) const;
    bool have_come(std::uint64_t ranks, std::uint64_t moment) const;
    void tell_core() const;
    void give_the_core_away_until(int peer, const Line& line, std::uint64_t moment);
    void compare(int peer, const Line& line, const MadeCall& made) const;
    void show_that_it_has_entered();
    void tell_about_the_call();
    void look_up(int peer, const Line& line, std::uint64_t moment);
    bool reached(int peer, const Line& line, std::uint64_t moment);
    Neighbour& neighbour(int peer) const { return neighbours_.ranks[static_cast<std::size_t>(peer)]; }

    Neighbours& neighbours_;
    int rank_;
    std::uint64_t fingerprint_;
    Waiting waiting_;
    std::uint64_t call_;
    Line& line_;
    Whereabouts in_ = Whereabouts::address(nullptr);
    Whereabouts out_ = Whereabouts::address(nullptr);
    bool has_told_ = false;
    bool has_signalled_ = false;
    bool has_yielded_ = false;
};

}  // namespace unisono
