#include "execute/watch.hpp"

#include <poll.h>

#include "base/error.hpp"

namespace unisono {

Watch::Watch(int rank, const std::vector<Life>& lives, Clock::time_point deadline,
             const std::function<void()>& interrupt)
    : rank_(rank),
      lives_(lives),
      deadline_(deadline),
      interrupt_(interrupt),
      next_(Clock::now() + interval) {}

int Watch::dead_rank() const {
    std::vector<pollfd> ends;
    for (const auto& life : lives_) ends.push_back({life.process.number(), POLLIN, 0});
    if (::poll(ends.data(), ends.size(), 0) <= 0) return -1;
    for (std::size_t i = 0; i < ends.size(); ++i)
        if (ends[i].revents != 0) return lives_[i].rank;
    return -1;
}

void Watch::throw_deadline(const std::string& awaited) const {
    throw DeadlineExceeded("rank " + std::to_string(rank_) + " has waited for " + awaited);
}

void Watch::throw_lost(int rank) const {
    throw PeerLost("rank " + std::to_string(rank_) + " lost rank " + std::to_string(rank) +
                   ": its process has ended");
}

}  // namespace unisono
