#include "transport/shm/ring.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "transport/shm/socket_bell.hpp"

namespace unisono {

namespace {

/// Long copies publish this often, so that the other side copies at the same time.
constexpr std::size_t slice = 32 * 1024;

/// The place of byte number `count`, up to the end of the ring.
std::span<std::byte> place(const Ring& ring, std::uint64_t count) {
    return ring.bytes.subspan(count & (ring.bytes.size() - 1));
}

void expect_unused(std::uint64_t counter) {
    if (counter != 0) throw std::invalid_argument("a ring serves one pair of links; this one has been used");
}

[[noreturn]] void lose_broken(const char* counter, std::uint64_t value, std::uint64_t low,
                              std::uint64_t high) {
    throw PeerLost(std::string("the peer broke the shared ring: its ") + counter + " is " +
                   std::to_string(value) + ", possible are " + std::to_string(low) + " to " +
                   std::to_string(high));
}

[[noreturn]] void lose_closed() { throw PeerLost("closed by the peer"); }

}  // namespace

template <class AnyBell>
BasicRingWriter<AnyBell>::BasicRingWriter(Ring ring, AnyBell& reader) : ring_(ring), reader_(reader) {
    // Relaxed: this side is the only one that writes it.
    expect_unused(ring_.control.tail.load(std::memory_order_relaxed));
}

template <class AnyBell>
void BasicRingWriter<AnyBell>::close() {
    if (!origin_.is_here()) return;  // the ring is still its parent's
    // Releases the last bytes to a reader that sees the flag; sequentially consistent for the bell.
    ring_.control.producer_closed.store(1, std::memory_order_seq_cst);
    reader_.ring();
}

template <class AnyBell>
std::size_t BasicRingWriter<AnyBell>::write(std::span<const Bytes> parts) {
    // At most a ring's size at once: a reader that keeps up must not hold a writer that has other peers.
    std::size_t left = ring_.bytes.size();
    const std::uint64_t before = tail_;
    for (Bytes part : parts) {
        while (!part.empty()) {
            const auto target = place(ring_, tail_);
            const std::size_t count = std::min({part.size(), target.size(), left, slice, room(part.size())});
            if (count == 0) {
                publish();
                return tail_ - before;
            }
            std::memcpy(target.data(), part.data(), count);
            part = part.subspan(count);
            left -= count;
            tail_ += count;
            if (tail_ - published_ >= slice) publish();
        }
    }
    publish();
    return tail_ - before;
}

template <class AnyBell>
std::size_t BasicRingWriter<AnyBell>::room(std::size_t wanted) {
    const std::size_t capacity = ring_.bytes.size();
    if (const std::size_t known = capacity - (tail_ - head_seen_); known >= wanted) return known;
    // Acquire, pairs with consume: the reader is done with the bytes that this lets us overwrite.
    const std::uint64_t head = ring_.control.head.load(std::memory_order_seq_cst);
    if (head - head_seen_ > published_ - head_seen_) lose_broken("head", head, head_seen_, published_);
    head_seen_ = head;
    // Sequentially consistent for the bell: the closing reader rings after this store.
    if (ring_.control.consumer_closed.load(std::memory_order_seq_cst) != 0) lose_closed();
    return capacity - (tail_ - head_seen_);
}

template <class AnyBell>
bool BasicRingWriter<AnyBell>::stirs() const {
    // `write` may have stopped with room left, and a reader that waits for the rest of it makes no more.
    if (tail_ - head_seen_ < ring_.bytes.size()) return true;
    // Sequentially consistent for the bell: who is about to sleep looks at this after it has said so.
    return ring_.control.head.load(std::memory_order_seq_cst) != head_seen_ ||
           ring_.control.consumer_closed.load(std::memory_order_seq_cst) != 0;
}

template <class AnyBell>
void BasicRingWriter<AnyBell>::publish() {
    if (tail_ == published_) return;
    published_ = tail_;
    // Release, pairs with load_tail: whoever sees the tail sees the bytes before it.
    ring_.control.tail.store(tail_, std::memory_order_seq_cst);
    reader_.ring();
}

template <class AnyBell>
BasicRingReader<AnyBell>::BasicRingReader(Ring ring, AnyBell& writer) : ring_(ring), writer_(writer) {
    // Relaxed: this side is the only one that writes it.
    expect_unused(ring_.control.head.load(std::memory_order_relaxed));
}

template <class AnyBell>
void BasicRingReader<AnyBell>::close() {
    if (!origin_.is_here()) return;  // the ring is still its parent's
    // Nothing has to be seen before it; sequentially consistent for the bell.
    ring_.control.consumer_closed.store(1, std::memory_order_seq_cst);
    writer_.ring();
}

template <class AnyBell>
Bytes BasicRingReader<AnyBell>::peek(std::size_t limit) {
    if (limit == 0) return {};
    const auto source = place(ring_, head_);
    return source.first(std::min({limit, source.size(), available(limit)}));
}

template <class AnyBell>
void BasicRingReader<AnyBell>::consume(std::size_t count) {
    assert(count <= tail_seen_ - head_);
    if (count == 0) return;
    head_ += count;
    // Release, pairs with room: our reads of these bytes come before the writer's next use of their place.
    ring_.control.head.store(head_, std::memory_order_seq_cst);
    writer_.ring();
}

template <class AnyBell>
std::size_t BasicRingReader<AnyBell>::read(std::span<std::byte> into) {
    // At most a ring's size at once, for the reason that write has.
    const std::size_t most = std::min(into.size(), ring_.bytes.size());
    std::size_t done = 0;
    while (done < most) {
        // Bytes that were moved are returned; that the writer is gone is news for the next call.
        if (done > 0 && tail_seen_ == head_ && load_tail() == head_) break;
        const Bytes source = peek(std::min(most - done, slice));
        if (source.empty()) break;
        std::memcpy(into.data() + done, source.data(), source.size());
        consume(source.size());
        done += source.size();
    }
    return done;
}

template <class AnyBell>
std::size_t BasicRingReader<AnyBell>::available(std::size_t wanted) {
    if (tail_seen_ - head_ >= wanted) return tail_seen_ - head_;
    const auto refresh = [this] {
        const std::uint64_t tail = load_tail();
        const std::uint64_t highest = head_ + ring_.bytes.size();
        if (tail - tail_seen_ > highest - tail_seen_) lose_broken("tail", tail, tail_seen_, highest);
        tail_seen_ = tail;
        return tail_seen_ - head_;
    };
    if (const std::size_t found = refresh(); found > 0) return found;
    // Acquire, pairs with ~RingWriter: who sees the flag sees the last tail, hence the second look.
    if (ring_.control.producer_closed.load(std::memory_order_seq_cst) == 0) return 0;
    if (const std::size_t found = refresh(); found > 0) return found;
    lose_closed();
}

template <class AnyBell>
bool BasicRingReader<AnyBell>::stirs() const {
    // Sequentially consistent for the bell, as the writer's.
    return load_tail() != tail_seen_ || closed();
}

template <class AnyBell>
std::uint64_t BasicRingReader<AnyBell>::load_tail() const {
    // Acquire, pairs with publish.
    return ring_.control.tail.load(std::memory_order_seq_cst);
}

template class BasicRingWriter<Bell>;
template class BasicRingReader<Bell>;
template class BasicRingWriter<SocketBell>;
template class BasicRingReader<SocketBell>;

}  // namespace unisono
