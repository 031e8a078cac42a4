#include "transport/wait.hpp"

#include <sched.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"

namespace unisono {

namespace {

/// Sleeps on the bell and on the sockets cannot be one call: where there are both, they take turns.
constexpr std::chrono::milliseconds alone{2};
constexpr std::chrono::milliseconds in_turn{1};

/// Reading the clock takes as long as looking at a few links.
constexpr int spins_per_look_at_the_clock = 32;

}  // namespace

Waiter::Waiter(std::span<const Link* const> links, Patience patience) : links_(links), patience_(patience) {
    for (const Link* link : links_)
        if (bell_ == nullptr && link != nullptr) bell_ = link->bell();
    reset();
}

Waiter::Waiter(std::span<const Link* const> links, bool more_ranks_than_cores)
    : Waiter(links, more_ranks_than_cores ? Patience::with_more_ranks_than_cores() : Patience()) {}

Waiter::~Waiter() { reset(); }

void Waiter::reset() {
    stage_ = patience_.spins > 0 ? Stage::spin : Stage::yield;
    count_ = 0;
    if (!entered_) return;
    if (origin_.is_here()) bell_->leave();
    entered_ = false;
}

bool Waiter::pause() {
    switch (stage_) {
        case Stage::spin:
            spin();
            return false;
        case Stage::yield:
            yield();
            return true;
        case Stage::sleep:
            sleep();
            return true;
    }
    return true;
}

/// The caller's look at its links is what takes the time here; a PAUSE instruction made no difference to it.
void Waiter::spin() {
    ++count_;
    bool over = count_ >= patience_.spins;
    if (count_ == spins_per_look_at_the_clock)
        since_ = Clock::now();
    else if (count_ % spins_per_look_at_the_clock == 0)
        over = over || Clock::now() - since_ >= patience_.spin_time;
    if (!over) return;
    stage_ = Stage::yield;
    count_ = 0;
}

void Waiter::yield() {
    if (count_ == 0) since_ = Clock::now();
    ::sched_yield();
    ++count_;
    const auto spent = Clock::now() - since_;
    if (spent < patience_.yield_time) return;
    if (count_ < patience_.yields && spent < Patience::longest_yielding) return;
    stage_ = Stage::sleep;
    count_ = 0;
}

void Waiter::sleep() {
    if (bell_ != nullptr && !entered_) {
        // The caller looks once more after this: the bell tells what is news from here on.
        bell_->enter();
        entered_ = true;
        ticket_ = bell_->ticket();
        return;
    }
    watch_sockets();
    if (bell_ == nullptr) return poll_sockets(alone);
    if (sockets_.empty()) {
        bell_->sleep(ticket_, alone);
    } else if (std::exchange(bells_turn_, !bells_turn_)) {
        bell_->sleep(ticket_, in_turn);
    } else {
        poll_sockets(in_turn);
    }
    ticket_ = bell_->ticket();
}

void Waiter::watch_sockets() {
    sockets_.clear();
    for (const Link* link : links_)
        if (link != nullptr) link->watch(sockets_);
}

void Waiter::poll_sockets(std::chrono::milliseconds timeout) {
    if (::poll(sockets_.data(), sockets_.size(), static_cast<int>(timeout.count())) < 0 && errno != EINTR)
        throw_errno("waiting for sockets");
}

}  // namespace unisono
