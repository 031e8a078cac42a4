#include "execute/watch.hpp"

#include <poll.h>

#include <vector>

#include "base/error.hpp"

namespace unisono {

namespace {

constexpr auto interval = std::chrono::milliseconds(20);

/// For a call that comes before the one that failed: who has left it has done its part, who has not comes.
constexpr auto patience = std::chrono::seconds(1);

}  // namespace

Watch::Watch(int rank, const Host& host, const Call& call, Caller& caller)
    : rank_(rank), host_(host), call_(call), caller_(caller), next_(call.began + interval) {}

void Watch::look(const Wait& wait) {
    const auto now = Clock::now();
    next_ = now + interval;
    ++looks_;
    caller_.look_up();
    if (now >= call_.deadline) throw_late(wait);
    look_for_a_verdict(now);
    look_for_failures(wait);
    look_for_deaths(wait);
}

void Watch::look_for_a_verdict(Clock::time_point now) {
    const auto failed = call_.failed.load(std::memory_order_acquire);
    if (failed == Turn::never) return;
    if (still_since_ == Clock::time_point{}) still_since_ = now;
    if (call_.turn < failed && now < still_since_ + patience) return;
    PeerLost told("rank " + std::to_string(rank_) + " was told that another rank has given up a call");
    told.second_hand = true;
    throw told;
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
                               std::to_string(call_.sequence),
                           late, "");
}

}  // namespace unisono
