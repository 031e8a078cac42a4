#include "transport/shm/ring_link.hpp"

#include <utility>

namespace unisono {

RingLink::RingLink(std::shared_ptr<Inbox> mine, int me, std::shared_ptr<Inbox> theirs, int peer)
    : mine_(std::move(mine)),
      theirs_(std::move(theirs)),
      reader_(mine_->ring(peer), theirs_->bell()),
      writer_(theirs_->ring(me), theirs_->bell()) {}

std::size_t RingLink::try_send(std::span<const Bytes> parts) {
    std::size_t offered = 0;
    for (const Bytes part : parts) offered += part.size();
    unsent_ = offered > 0;
    const std::size_t sent = writer_.write(parts);
    unsent_ = sent < offered;
    return sent;
}

Bytes RingLink::peek(std::size_t limit) { return reader_.peek(limit); }

void RingLink::consume(std::size_t count) { reader_.consume(count); }

std::size_t RingLink::try_receive(std::span<std::byte> into) { return reader_.read(into); }

void RingLink::watch(std::vector<pollfd>&) const {}

Bell* RingLink::bell() const { return &mine_->bell(); }

void RingLink::sever() {
    writer_.close();
    reader_.close();
}

bool RingLink::unsent() const { return unsent_; }

}  // namespace unisono
