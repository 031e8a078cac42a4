#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.hpp"

namespace unisono {

/// What a call is, in numbers that have their meaning from whoever makes it.
struct Label {
    std::uint32_t kind = 0;  // the collective, its algorithm, the type of elements, the operator
    std::uint32_t site = 0;  // the line of the program that made the call
    std::uint64_t bytes = 0;
};

enum class Outcome : std::uint32_t { running, done, failed };

/// Times are nanoseconds of CLOCK_MONOTONIC, which the processes of a host share; 0 is "not yet".
struct PeerRecord {
    int peer;
    bool expected;                // whether the call gets frames from it at all
    std::uint64_t arrived;        // when the first of these was seen
    std::uint64_t waited;         // for this peer, in waits that were too long to be spun away
    std::uint64_t longest_began;  // the longest of these waits
    std::uint64_t longest;
};

struct CallRecord {
    std::uint64_t number;  // of all calls, from 0
    std::uint64_t sequence;
    Label label;
    std::uint64_t began;
    std::uint64_t ended;
    Outcome outcome;
    std::vector<PeerRecord> peers;  // that the call talks to
};

/// How many calls a rank has begun together with each other one: what two of them count differently, they
/// have made in another order.
struct Tally {
    std::uint64_t of_all;                 // calls of all ranks
    std::vector<std::uint64_t> sent;      // messages to each in calls of two ranks, which are through
    std::vector<std::uint64_t> received;  // and from each
    std::uint64_t since;                  // the number of the first call that is counted
};

/// The last calls of a rank, and how long it has waited for whom. One thread at a time makes calls and
/// writes; any other reads at any time, also in the middle of a call. Writing allocates nothing and never
/// waits.
///
/// Memory order: each slot is a sequence lock without fences, which ThreadSanitizer does not know. The writer
/// clears `generation`, stores the fields with release and then the new generation; the reader loads the
/// generation, the fields with acquire, and the generation again. If a field that it read was the next
/// call's, the clearing of the generation, which came before that field was stored, is visible to its second
/// look, and it drops what it read. Fields that change during a call make sense one by one; `outcome` is
/// stored last, so who sees that a call has ended sees all of it.
class Recorder {
  public:
    static constexpr std::size_t calls_kept = 256;
    static constexpr std::uint64_t no_sequence = ~std::uint64_t{0};

    explicit Recorder(int ranks);
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;
    ~Recorder();

    void begin(const Label& label, std::uint64_t sequence, Clock::time_point now);
    void end(Outcome outcome);

    /// A call of two ranks is through, and another has not begun.
    void sent_to(int peer);
    void received_from(int peer);
    /// How many messages of such calls have come from this peer. For the writer.
    std::uint64_t received_so_far(int peer) const;
    /// What was counted so far is forgotten; the next call of all ranks has this number.
    void count_from(std::uint64_t sequence);

    /// The call that has begun gets frames from this peer, or only sends to it.
    void expect(int peer) { add(peer, true); }
    void only_send_to(int peer) { add(peer, false); }

    /// A frame of an expected peer is here. Only the first of a call counts.
    void arrived(int peer, Clock::time_point when = quick_now());

    /// From now on nothing can be done before peers act; `wait_for` says which. Where some of these have not
    /// come to the call at all, it is them that the wait is for: the others may be waiting for them, too.
    void begin_wait();
    void wait_for(int peer);
    bool is_waiting() const { return is_waiting_; }

    /// The wait is not over, but what it has taken so far counts: a reader shall see it.
    void update_wait(Clock::time_point now);
    void end_wait();

    /// When the wait began that is under way, or the last one.
    Clock::time_point wait_began() const { return wait_began_; }

    /// When the call that is under way began.
    Clock::time_point began() const { return began_; }

    /// The latest time that it knows of: of the call's beginning, or in its last wait.
    Clock::time_point latest() const { return std::max(began_, counted_to_); }

    /// Those of the kept calls that have this number or a later one, the oldest first; the last one may be
    /// under way.
    std::vector<CallRecord> calls_since(std::uint64_t number) const;

    /// Read while a call is under way, and still is afterwards, it is of the moment at which that began.
    Tally tally() const;

    /// Nanoseconds that all calls have waited for each peer.
    std::vector<std::uint64_t> waited() const;

  private:
    template <class T>
    class Field;
    struct Slot;
    struct Entry;

    void add(int peer, bool expected);
    Slot& current() const;
    Entry* entries_of(std::uint64_t number) const;
    bool read(std::uint64_t number, CallRecord& record) const;

    std::size_t ranks_;
    std::unique_ptr<Slot[]> slots_;
    std::unique_ptr<Entry[]> entries_;  // of every slot, one for each rank that the call talks to
    std::unique_ptr<Field<std::uint64_t>[]> waited_;
    std::unique_ptr<Field<std::uint64_t>> begun_;  // calls
    std::unique_ptr<Field<std::uint64_t>> of_all_, since_;
    std::unique_ptr<Field<std::uint64_t>[]> sent_, received_;

    // Known to the writer only.
    Clock::time_point began_;
    std::vector<std::uint32_t> entry_of_;  // by peer
    std::vector<std::uint32_t> awaited_;   // entries
    bool awaits_absent_ = false;           // these are of peers that have not come
    bool is_waiting_ = false;
    Clock::time_point wait_began_;
    Clock::time_point counted_to_;
};

/// A call on record from here to the end of the scope: failed, unless it is said to have succeeded.
class Recording {
  public:
    Recording(Recorder& recorder, const Label& label, std::uint64_t sequence, Clock::time_point now)
        : recorder_(recorder) {
        recorder.begin(label, sequence, now);
    }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    ~Recording() { recorder_.end(outcome_); }

    void succeed() { outcome_ = Outcome::done; }

  private:
    Recorder& recorder_;
    Outcome outcome_ = Outcome::failed;
};

}  // namespace unisono
