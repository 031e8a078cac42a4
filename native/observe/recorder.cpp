#include "observe/recorder.hpp"

#include <algorithm>

namespace unisono {

namespace {

std::uint64_t nanoseconds(Clock::duration time) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

}  // namespace

/// A number that one thread writes and others read. On x86 both are plain moves.
template <class T>
class Recorder::Field {
  public:
    void operator=(T value) { value_.store(value, std::memory_order_release); }
    operator T() const { return value_.load(std::memory_order_acquire); }
    void operator+=(T more) { *this = value_.load(std::memory_order_relaxed) + more; }

  private:
    std::atomic<T> value_{};
};

struct Recorder::Entry {
    Field<int> peer;
    Field<bool> expected;
    Field<std::uint64_t> arrived, waited, longest_began, longest;
};

struct Recorder::Slot {
    Field<std::uint64_t> generation;  // the number of the call + 1; 0 while it changes
    Field<std::uint64_t> sequence;
    Field<std::uint32_t> kind, site;
    Field<std::uint64_t> bytes, began, ended;
    Field<Outcome> outcome;
    Field<std::uint32_t> peers;  // entries in use
};

Recorder::Recorder(int ranks)
    : ranks_(static_cast<std::size_t>(ranks)),
      slots_(std::make_unique<Slot[]>(calls_kept)),
      entries_(std::make_unique<Entry[]>(calls_kept * ranks_)),
      waited_(std::make_unique<Field<std::uint64_t>[]>(ranks_)),
      begun_(std::make_unique<Field<std::uint64_t>>()),
      of_all_(std::make_unique<Field<std::uint64_t>>()),
      since_(std::make_unique<Field<std::uint64_t>>()),
      sent_(std::make_unique<Field<std::uint64_t>[]>(ranks_)),
      received_(std::make_unique<Field<std::uint64_t>[]>(ranks_)),
      entry_of_(ranks_) {
    awaited_.reserve(ranks_);
}

Recorder::~Recorder() = default;

Recorder::Slot& Recorder::current() const { return slots_[(*begun_ - 1) % calls_kept]; }

Recorder::Entry* Recorder::entries_of(std::uint64_t number) const {
    return &entries_[number % calls_kept * ranks_];
}

void Recorder::begin(const Label& label, std::uint64_t sequence, Clock::time_point now) {
    const std::uint64_t number = *begun_;
    began_ = now;
    auto& slot = slots_[number % calls_kept];
    slot.generation = 0;
    slot.sequence = sequence;
    slot.kind = label.kind;
    slot.site = label.site;
    slot.bytes = label.bytes;
    slot.began = nanoseconds(began_.time_since_epoch());
    slot.ended = 0;
    slot.outcome = Outcome::running;
    slot.peers = 0;
    slot.generation = number + 1;
    if (sequence != no_sequence) *of_all_ = sequence + 1;
    *begun_ = number + 1;
}

void Recorder::end(Outcome outcome) {
    if (is_waiting_) end_wait();
    auto& slot = current();
    // Another thread may have begun it, whose clock tells some nanoseconds more.
    slot.ended = nanoseconds(std::max(quick_now(), began_).time_since_epoch());
    slot.outcome = outcome;
}

void Recorder::sent_to(int peer) { sent_[static_cast<std::size_t>(peer)] += 1; }

void Recorder::received_from(int peer) { received_[static_cast<std::size_t>(peer)] += 1; }

std::uint64_t Recorder::received_so_far(int peer) const { return received_[static_cast<std::size_t>(peer)]; }

void Recorder::count_from(std::uint64_t sequence) {
    *of_all_ = sequence;
    *since_ = std::uint64_t{*begun_};
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
        sent_[peer] = 0;
        received_[peer] = 0;
    }
}

void Recorder::add(int peer, bool expected) {
    auto& slot = current();
    const std::uint32_t index = slot.peers;
    auto& entry = entries_of(*begun_ - 1)[index];
    entry.peer = peer;
    entry.expected = expected;
    entry.arrived = 0;
    entry.waited = 0;
    entry.longest_began = 0;
    entry.longest = 0;
    slot.peers = index + 1;
    entry_of_[static_cast<std::size_t>(peer)] = index;
}

void Recorder::arrived(int peer, Clock::time_point when) {
    auto& entry = entries_of(*begun_ - 1)[entry_of_[static_cast<std::size_t>(peer)]];
    if (entry.arrived == 0) entry.arrived = nanoseconds(std::max(when, began_).time_since_epoch());
}

void Recorder::begin_wait() {
    is_waiting_ = true;
    awaits_absent_ = false;
    awaited_.clear();
    wait_began_ = counted_to_ = quick_now();
}

void Recorder::wait_for(int peer) {
    const auto index = entry_of_[static_cast<std::size_t>(peer)];
    const auto& entry = entries_of(*begun_ - 1)[index];
    const bool is_absent = entry.expected && entry.arrived == 0;
    if (is_absent && !awaits_absent_) awaited_.clear();
    awaits_absent_ |= is_absent;
    if (is_absent == awaits_absent_) awaited_.push_back(index);
}

void Recorder::update_wait(Clock::time_point now) {
    if (!is_waiting_) return;
    const auto more = nanoseconds(now - counted_to_), length = nanoseconds(now - wait_began_);
    for (const auto index : awaited_) {
        auto& entry = entries_of(*begun_ - 1)[index];
        entry.waited += more;
        waited_[static_cast<std::size_t>(static_cast<int>(entry.peer))] += more;
        if (length <= entry.longest) continue;
        entry.longest_began = nanoseconds(wait_began_.time_since_epoch());
        entry.longest = length;
    }
    counted_to_ = now;
}

void Recorder::end_wait() {
    update_wait(quick_now());
    is_waiting_ = false;
}

bool Recorder::read(std::uint64_t number, CallRecord& record) const {
    const auto& slot = slots_[number % calls_kept];
    if (slot.generation != number + 1) return false;
    record.number = number;
    record.outcome = slot.outcome;  // first: what it says to be complete is read afterwards
    record.sequence = slot.sequence;
    record.label = {slot.kind, slot.site, slot.bytes};
    record.began = slot.began;
    record.ended = slot.ended;
    if (record.outcome == Outcome::running) record.ended = 0;  // it has ended since
    const auto* entries = entries_of(number);
    record.peers.clear();
    for (std::uint32_t i = 0, count = slot.peers; i < count; ++i) {
        const auto& [peer, expected, arrived, waited, longest_began, longest] = entries[i];
        record.peers.push_back({peer, expected, arrived, waited, longest_began, longest});
    }
    return slot.generation == number + 1;
}

std::vector<CallRecord> Recorder::calls_since(std::uint64_t number) const {
    std::vector<CallRecord> result;
    const std::uint64_t begun = *begun_;
    const std::uint64_t oldest = begun > calls_kept ? begun - calls_kept : 0;
    CallRecord record{};
    for (auto each = std::max(number, oldest); each < begun; ++each)
        if (read(each, record)) result.push_back(record);
    return result;
}

Tally Recorder::tally() const {
    return {
        *of_all_, {sent_.get(), sent_.get() + ranks_}, {received_.get(), received_.get() + ranks_}, *since_};
}

std::vector<std::uint64_t> Recorder::waited() const { return {waited_.get(), waited_.get() + ranks_}; }

}  // namespace unisono
