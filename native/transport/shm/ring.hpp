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
class RingWriter {
  public:
    /// `reader` is who sleeps while there is nothing to read.
    RingWriter(Ring ring, Bell& reader);
    RingWriter(const RingWriter&) = delete;
    RingWriter& operator=(const RingWriter&) = delete;
    ~RingWriter() { close(); }

    /// The reader gets what was written, and is told that there will be no more. May be called twice.
    void close();

    /// Copies as much of the parts as there is room for; returns how much that was.
    std::size_t write(std::span<const Bytes> parts);

  private:
    std::size_t room(std::size_t wanted);
    void publish();

    Origin origin_;
    Ring ring_;
    Bell& reader_;
    std::uint64_t tail_ = 0;
    std::uint64_t published_ = 0;
    std::uint64_t head_seen_ = 0;
};

class RingReader {
  public:
    /// `writer` is who sleeps while there is no room.
    RingReader(Ring ring, Bell& writer);
    RingReader(const RingReader&) = delete;
    RingReader& operator=(const RingReader&) = delete;
    ~RingReader() { close(); }

    /// The writer is told that nobody reads any more. May be called twice.
    void close();

    Bytes peek(std::size_t limit);
    void consume(std::size_t count);
    std::size_t read(std::span<std::byte> into);

  private:
    std::size_t available(std::size_t wanted);
    std::uint64_t load_tail() const;

    Origin origin_;
    Ring ring_;
    Bell& writer_;
    std::uint64_t head_ = 0;
    std::uint64_t tail_seen_ = 0;
};

}  // namespace unisono
