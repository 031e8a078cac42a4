#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/fd.hpp"
#include "transport/link.hpp"

namespace unisono {

/// How long a silent peer is believed to be alive.
struct TcpPatience {
    /// An idle connection is probed after this long, and then as often.
    std::chrono::seconds probe_after{15};
    /// Bytes that the peer's host does not take for this long end the connection. Linux counts a peer that
    /// is alive but does not read (its window is closed) as well: shorter than the longest time that a
    /// rank may compute between two calls is an error. None: leave it to the system, about 15 minutes.
    std::chrono::milliseconds give_up_after{std::chrono::minutes(10)};
};

/// A connection over TCP, which somebody else has established and authenticated.
class TcpLink final : public Link {
  public:
    explicit TcpLink(Fd socket, TcpPatience patience = {});

    std::size_t try_send(std::span<const Bytes> parts) override;
    Bytes peek(std::size_t limit) override;
    void consume(std::size_t count) override;
    std::size_t try_receive(std::span<std::byte> into) override;
    void watch(std::vector<pollfd>& sockets) const override;
    void sever() override;
    bool unsent() const override;
    bool leaves_host() const override { return leaves_host_; }

    int descriptor() const { return socket_.number(); }

  private:
    std::size_t buffered() const;
    std::size_t drain(std::span<std::byte> into);
    /// Reads what has arrived into the rest of the target and what comes after it, up to `ahead`, into the
    /// empty buffer. Returns how many bytes the target got.
    std::size_t receive(std::span<std::byte> into, std::size_t ahead);
    [[noreturn]] void lose(const std::string& reason);

    Fd socket_;
    std::unique_ptr<std::byte[]> buffer_;
    std::size_t first_ = 0;  // buffer_[first_, last_) has arrived and is not consumed
    std::size_t last_ = 0;
    bool unsent_ = false;
    bool leaves_host_;
    std::string lost_;  // the first reason is the one that every later call repeats
};

}  // namespace unisono
