#include "execute/gone.hpp"

#include <poll.h>

namespace unisono {

namespace {

bool has_hung_up(const Link& link) {
    std::vector<pollfd> sockets;
    link.watch(sockets);
    for (auto& each : sockets) each.events = POLLRDHUP;
    return ::poll(sockets.data(), sockets.size(), 0) > 0;
}

}  // namespace

Gone look_for_gone(const Host& host, std::span<const CountedLink> links) {
    Gone gone;
    for (const auto& life : host.lives) {
        pollfd end{life.process.number(), POLLIN, 0};
        if (::poll(&end, 1, 0) > 0)
            gone.ended.push_back(life.rank);
        else if (life.inbox && life.inbox->board().left.load(std::memory_order_acquire) != 0)
            gone.left.push_back(life.rank);
    }
    for (std::size_t rank = 0; rank < links.size(); ++rank)
        if (links[rank].get() != nullptr && has_hung_up(*links[rank].get()))
            gone.left.push_back(static_cast<int>(rank));
    return gone;
}

}  // namespace unisono
