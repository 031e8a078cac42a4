#include "execute/watch.hpp"

#include <poll.h>

#include <vector>

#include "base/error.hpp"

namespace unisono {

namespace {

constexpr auto interval = std::chrono::milliseconds(20);

}  // namespace

Watch::Watch(int rank, const Host& host, Clock::time_point deadline, const std::function<void()>& interrupt)
    : rank_(rank), host_(host), deadline_(deadline), interrupt_(interrupt), next_(Clock::now() + interval) {}

void Watch::look(const Wait& wait) {
    const auto now = Clock::now();
    next_ = now + interval;
    ++looks_;
    interrupt_();
    if (now >= deadline_) throw_late(wait);
    if (alarm_rings()) {
        PeerLost told("rank " + std::to_string(rank_) + " was told that another rank has given up a call");
        told.second_hand = true;
        throw told;
    }
    look_for_failures(wait);
    look_for_deaths(wait);
}

bool Watch::alarm_rings() const {
    pollfd alarm{host_.alarm.number(), POLLIN, 0};
    return host_.alarm.valid() && ::poll(&alarm, 1, 0) > 0;
}

void Watch::look_for_failures(const Wait& wait) {
    for (const auto& life : host_.lives)
        // Acquire, pairs with Executor::fail: what it did before is visible to is_over.
        if (life.inbox && life.inbox->board().failed.load(std::memory_order_acquire) != 0 && looks_ > 1 &&
            !wait.is_over())
            throw PeerLost::given_up(rank_, life.rank);
}

/// Who left in order is missed only by who waits for it.
void Watch::look_for_deaths(const Wait& wait) {
    std::vector<pollfd> ends;
    for (const auto& life : host_.lives) ends.push_back({life.process.number(), POLLIN, 0});
    if (::poll(ends.data(), ends.size(), 0) <= 0) return;
    for (std::size_t i = 0; i < ends.size(); ++i) {
        const auto& [rank, process, inbox] = host_.lives[i];
        const bool left = inbox && inbox->board().left.load(std::memory_order_acquire) != 0;
        if (ends[i].revents != 0 && (!left || wait.is_for(rank)) && looks_ > 1 && !wait.is_over())
            throw PeerLost::of(rank_, rank, "its process has ended");
    }
}

void Watch::throw_late(const Wait& wait) const {
    const auto late = wait.ranks();
    std::string names;
    for (const auto rank : late) names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
    throw DeadlineExceeded("rank " + std::to_string(rank_) + " has waited for " + names + " in call " +
                               std::to_string(wait.call),
                           late, "");
}

}  // namespace unisono
