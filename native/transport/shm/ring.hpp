#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fork.hpp"
#include "transport/link.hpp"
#include "transport/shm/bell.hpp"
#include "transport/shm/inbox.hpp"

namespace unisono {

/// The two ends of a ring. Each has its own counter in private memory and only ever publishes it, and
/// remembers the other side's, so that it reads the other side's cache line only when that says "not
/// enough". The other side's counter is checked whenever it is read: a broken peer is a PeerLost, and no
/// access is out of bounds.
///
/// Memory order: a counter's store releases the bytes (or the room) before it, its load acquires them.
/// Both are sequentially consistent because the bell asks for that (bell.hpp); on x86 that makes the store
/// an exchange, some 20 cycles, and the load nothing more than it was.
template <class AnyBell>
class BasicRingWriter {
  public:
    /// `reader` is who sleeps while there is nothing to read.
    BasicRingWriter(Ring ring, AnyBell& reader);
    BasicRingWriter(const BasicRingWriter&) = delete;
    BasicRingWriter& operator=(const BasicRingWriter&) = delete;
    ~BasicRingWriter() { close(); }

    /// The reader gets what was written, and is told that there will be no more. May be called twice.
    void close();

    /// Copies as much of the parts as there is room for; returns how much that was.
    std::size_t write(std::span<const Bytes> parts);

    /// For who could not write everything: is there room now, or nobody any more who makes some?
    bool stirs() const;

  private:
    std::size_t room(std::size_t wanted);
    void publish();

    Origin origin_;
    Ring ring_;
    AnyBell& reader_;
    std::uint64_t tail_ = 0;
    std::uint64_t published_ = 0;
    std::uint64_t head_seen_ = 0;
};

template <class AnyBell>
class BasicRingReader {
  public:
    /// `writer` is who sleeps while there is no room.
    BasicRingReader(Ring ring, AnyBell& writer);
    BasicRingReader(const BasicRingReader&) = delete;
    BasicRingReader& operator=(const BasicRingReader&) = delete;
    ~BasicRingReader() { close(); }

    /// The writer is told that nobody reads any more. May be called twice.
    void close();

    Bytes peek(std::size_t limit);
    void consume(std::size_t count);
    std::size_t read(std::span<std::byte> into);

    /// From the next byte to the ring's end: what lies together, whether it has arrived or not.
    std::size_t stretch() const { return ring_.bytes.size() - (head_ & (ring_.bytes.size() - 1)); }
    /// The writer says that there will be no more than what is there.
    bool closed() const { return ring_.control.producer_closed.load(std::memory_order_seq_cst) != 0; }
    /// Since too little had arrived: is there more of it now, or nobody any more who sends?
    bool stirs() const;

  private:
    std::size_t available(std::size_t wanted);
    std::uint64_t load_tail() const;

    Origin origin_;
    Ring ring_;
    AnyBell& writer_;
    std::uint64_t head_ = 0;
    std::uint64_t tail_seen_ = 0;
};

using RingWriter = BasicRingWriter<Bell>;
using RingReader = BasicRingReader<Bell>;

}  // namespace unisono
