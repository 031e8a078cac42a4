#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/fd.hpp"
#include "server/connection.hpp"
#include "server/rows.hpp"
#include "server/snapshot_writer.hpp"
#include "server/store.hpp"

namespace unisono::server {

using Time = std::chrono::steady_clock;

struct ShardOptions {
    std::uint32_t shard = 0;
    std::uint32_t shards = 1;
    std::uint32_t threads = 1;  // of each server
    std::uint32_t workers = 1;
    std::chrono::milliseconds grace{1000};  // that a worker has to come back when its connection broke
    std::string log;                        // a directory; empty: no apply log
    Quotas quotas;
    PythonRules rules;
    /// Called once, from the shard's thread, when it cannot go on.
    std::function<void(const std::string&)> failed;
};

/// One shard and its thread, which nobody else shares anything with but the inbox. Shard 0 is the
/// coordinator, too: it puts the commits of clocks, the ends of workers and snapshots into one order, which
/// all shards follow. So a clock counts on all of them or on none, and a snapshot is taken at the same place
/// everywhere.
class Shard {
  public:
    enum class Role { worker, peer, coordinator };

    explicit Shard(ShardOptions options);
    ~Shard();
    Shard(const Shard&) = delete;
    Shard& operator=(const Shard&) = delete;

    /// An authenticated connection: of a worker, of another shard to the coordinator, or to the coordinator.
    void adopt(Connection connection, Role role, std::uint32_t number);
    /// A worker will not come: nobody waits for it, unless it has joined. The coordinator's, from any thread.
    void give_up(std::uint32_t worker);
    /// Says goodbye to the other shards, and ends the thread.
    void begin_to_close();
    void close();
    /// Workers that have joined and have not ended. From any thread.
    std::uint32_t present() const { return present_; }

  private:
    struct Session;
    struct Parked {
        Session* session;
        Header head;
        std::vector<std::byte> payload;
        Time::time_point since;
    };
    struct Subscription {
        std::set<std::uint64_t> chunks;
        Rows rows{0};
        Rows due{0};  // changed since they were sent
        bool behind = false;
    };
    struct Session {
        Session(Connection made, Role part, std::uint32_t who)
            : connection(std::move(made)), role(part), number(who) {}

        Connection connection;
        Role role;
        std::uint32_t number;
        std::uint64_t incarnation = 0;   // 0 until it is welcome
        std::uint64_t ack = 0;           // to be sent; 0: none
        std::size_t parked = 0;          // bytes of requests that wait for other workers
        bool paused = false;             // it has asked for so much that we do not listen for now
        std::uint32_t events = EPOLLIN;  // what epoll waits for
        bool touched = false;
        bool gone = false;
        std::map<std::uint32_t, Subscription> eager;
    };
    struct Arrival {
        Connection connection;
        Role role;
        std::uint32_t number;
    };
    /// A snapshot that is to be taken, or loaded.
    struct Marking {
        Session* session;        // whose worker has asked for it; nobody's if it is gone
        std::uint64_t sequence;  // of its request
        Kind order;              // what the shards have been told
        std::string directory;
        std::uint64_t number;
        std::set<std::uint32_t> awaited = {};
        std::string trouble = {};
        bool kept = false;  // by the coordinator
    };

    bool coordinates() const { return options_.shard == 0; }
    void run();
    bool may_rest();
    bool find_stirring();
    bool has_events() const;
    int next_timeout() const;
    void answer_bell();
    void take_arrivals();
    void serve(Session& session);
    void pump(Session& session);
    static bool may_ask(const Session& session);
    void settle();
    void watch(Session& session);
    void drop(Session& session);
    void bury();
    void fail(const std::string& why);

    // requests
    void handle(Session& session, const Header& head, Bytes payload);
    void handle_worker(Session& session, const Header& head, Bytes payload);
    void confirm(Session& session, const Header& head);
    void handle_push(Session& session, const Header& head, Bytes payload);
    void refuse(Session& session, const Header& head, const std::string& why, Trouble trouble);
    void greet(Session& session, const Header& head);
    void welcome(Session& session, const Header& head);
    void answer(Session& session, const Header& head, Bytes payload, std::uint64_t waited, std::uint32_t by);
    void finish(Session& session, const Header& head, std::uint64_t clock = 0, const std::string& text = "");
    bool try_serve(Session& session, const Header& head, Bytes payload, std::uint64_t waited,
                   std::uint32_t by);
    void park(Session& session, const Header& head, Bytes payload);
    void unpark(std::uint32_t by);
    void unpark_once(std::uint32_t by);
    void touch(Session& session);
    std::string status() const;

    // the common order
    void publish(const Header& head, Bytes payload = {});
    void tell_peers(const Header& head, Bytes payload);
    void follow(const Header& head, Bytes payload);
    bool misses_shards() const;
    void end_worker(std::uint32_t worker);
    void end_the_broken();
    void end_the_absent();

    // snapshots
    void mark(Session& session, const Header& head, Bytes payload);
    void order_marking(Kind order, bool of_peers, bool of_us);
    void follow_marking(const Header& head, Bytes payload);
    void tell_marked(std::uint64_t number, const std::string& trouble);
    void note_marked(std::uint32_t shard, const Header& head, Bytes payload);
    void go_on_marking();
    void end_marking();

    // eager pushes
    void subscribe(Session& session, const Header& head, Bytes payload);
    void forget_readers(std::uint32_t number);
    void push_eagerly(std::uint32_t number, Table& table);
    void send_due(Session& session, std::uint32_t number, Subscription& subscription);

    ShardOptions options_;
    Store store_;
    Fd epoll_;
    Fd bell_;
    std::mutex mutex_;
    std::vector<Arrival> arrivals_;      // under the mutex
    std::vector<std::uint32_t> absent_;  // under the mutex: workers that will not come
    std::atomic<bool> closing_ = false;
    std::atomic<std::uint32_t> present_ = 0;
    std::list<Session> sessions_;
    std::list<Parked> parked_;
    std::vector<Session*> touched_;                     // have something to send
    std::vector<Session*> hungry_;                      // may have sent more than was looked at
    bool lingers_ = false;                              // somebody was served just now
    bool lingers_at_sockets_ = false;                   // over TCP
    std::map<std::uint32_t, Time::time_point> broken_;  // workers, since when; the coordinator's
    std::set<std::uint64_t> fenced_;                    // incarnations that have ended
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> waits_;  // who, for whom: nanoseconds
    std::deque<Marking> markings_;  // the first is under way; the coordinator's
    bool unparking_ = false;
    bool unpark_again_ = false;
    bool farewell_ = false;  // the others end in good order, too
    bool failed_ = false;
    Origin origin_;
    SnapshotWriter writer_;
    std::thread thread_;
};

}  // namespace unisono::server
