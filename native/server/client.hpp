#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fork.hpp"
#include "server/connection.hpp"

namespace unisono::server {

using Time = std::chrono::steady_clock;

/// What is known about a read: the worst of its parts.
struct ReadInfo {
    std::uint64_t staleness = 0;  // clocks
    std::uint64_t waited = 0;     // nanoseconds that the servers let it wait
    std::uint32_t awaited = nobody;
    std::uint64_t missing = 0;  // updates of earlier clocks that it does not have, and
    std::uint64_t extra = 0;    // of later ones that it has; if they were asked for
    std::uint64_t cached = 0;   // parts that were served here
    std::uint64_t parts = 0;
};

/// Some requests that belong together. Under the client's mutex until it is done.
struct Operation {
    std::size_t pending = 0;
    bool failed = false;
    Trouble trouble = Trouble::config;
    std::string text;  // why, or what the answer says
    std::uint64_t clock = 0;
    ReadInfo read;

    bool done() const { return pending == 0 || failed; }
};
using OperationPtr = std::shared_ptr<Operation>;

/// A worker's side: a connection to each shard, and what has been asked of it and not been answered. Requests
/// are kept until then, and sent again over a new connection if the old one breaks; shards know by the
/// sequence which of them they have applied.
///
/// Whoever waits moves the bytes. While nobody does, and something that was started is under way, a thread of
/// our own.
class Client {
  public:
    struct Request {
        Header head;
        std::vector<std::byte> owned;  // the first part of the payload
        Bytes lent;  // the second, kept by somebody else until the answer is here, or by `kept`
        OperationPtr operation;
        std::span<std::byte> target;  // where values go, if not through `arrived` alone
        std::function<void(const Header&, Bytes)> arrived;
        bool answered = false;
        std::vector<std::byte> kept = {};
    };
    using Eager = std::function<void(std::uint32_t shard, const Header&, Bytes)>;
    using Renewed = std::function<void(std::uint32_t shard)>;
    enum class Progress { done, broken, late };

    Client(std::uint32_t worker, std::uint64_t incarnation, std::uint32_t shards);
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    std::uint32_t worker() const { return worker_; }
    std::uint32_t shards() const { return static_cast<std::uint32_t>(shards_.size()); }

    /// An authenticated connection, new or in the place of one that broke.
    void attach(std::uint32_t shard, Connection connection);
    /// Ends all connections. What is asked from now on fails.
    void close();
    /// Those whose connection broke, or was never there.
    std::vector<std::uint32_t> detached() const;
    std::string why_detached(std::uint32_t shard) const;

    /// Until the operation is done, a connection breaks or time is up. `look_up` is called now and then,
    /// without the mutex, and may throw.
    Progress wait(const Operation& operation, Time::time_point until, const std::function<void()>& look_up);
    /// Those that have not answered all of it.
    std::vector<std::uint32_t> awaited(const OperationPtr& operation) const;
    /// Nobody waits for it any more, and its memory belongs to its owner again: nothing is written to it, or
    /// read from it. What was pushed is still pushed.
    void let_go(const OperationPtr& operation);
    /// Goes on by itself from now on.
    void in_background();
    /// Takes what has arrived, and waits for nothing.
    void take_news();

    // With the mutex:
    std::mutex& mutex() const { return mutex_; }
    void issue(std::uint32_t shard, Request request);
    void set_eager(Eager eager) { eager_ = std::move(eager); }
    /// Called when a shard is connected anew: it knows nothing any more of what it had been asked to send.
    void set_renewed(Renewed renewed) { renewed_ = std::move(renewed); }

  private:
    struct Lane {
        std::unique_ptr<Connection> connection;
        std::string why = "it was not connected yet";
        bool welcome = false;
        std::uint64_t sequence = 0;
        std::deque<Request> requests;  // in the order of their sequence; the first ones were sent
        std::vector<std::byte> buffer;
    };

    void transmit(Lane& lane, const Request& request);
    bool turn(std::unique_lock<std::mutex>& lock, std::chrono::milliseconds most);
    bool look_for_a_while(std::unique_lock<std::mutex>& lock);
    bool receive_what_stirs();
    void receive(std::uint32_t shard);
    void take(std::uint32_t shard, const Header& head, Bytes payload);
    void settle(Request& request);
    void fail_all(const std::string& why);
    void detach(Lane& lane, const std::string& why);
    Request* find(Lane& lane, std::uint64_t sequence);
    bool any_detached() const;
    bool any_outstanding() const;
    void work();

    Origin origin_;
    std::uint32_t worker_;
    std::uint64_t incarnation_;
    std::vector<Lane> shards_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool driven_ = false;  // somebody polls
    bool closing_ = false;
    bool background_ = false;
    std::optional<std::string> lost_;
    Eager eager_;
    Renewed renewed_;
    Fd bell_;
    std::thread thread_;
};

}  // namespace unisono::server
