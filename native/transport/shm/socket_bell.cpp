#include "transport/shm/socket_bell.hpp"

#include <sys/socket.h>

namespace unisono {

void SocketBell::wake() {
    // One ring is enough until it sleeps again.
    if (asleep_.exchange(0, std::memory_order_seq_cst) == 0) return;
    // Where no byte fits, enough of them wait there; who is gone is noticed by who reads.
    const char byte = '!';
    ::send(socket_.number(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace unisono
