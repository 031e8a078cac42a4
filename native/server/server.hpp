#pragma once

#include <condition_variable>
#include <optional>

#include "server/shard.hpp"

namespace unisono::server {

struct ServerOptions {
    std::uint32_t server = 0;  // of so many
    std::uint32_t servers = 1;
    std::uint32_t threads = 1;  // of each: every one has a shard
    ShardOptions shards;        // for each of them, apart from its number
};

/// The shards of one process. Shard s is thread s % threads of server s / threads.
class Server {
  public:
    explicit Server(ServerOptions options);

    /// A worker's connection for one of our threads.
    void adopt_worker(Connection connection, std::uint32_t worker, std::uint32_t thread);
    /// The first server gets a connection from each shard of the others.
    void adopt_peer(Fd socket, std::uint32_t shard);
    void adopt_coordinator(Fd socket, std::uint32_t thread);
    /// The first server: the worker will not come, and is not waited for unless it has joined.
    void give_up(std::uint32_t worker) { shards_.front()->give_up(worker); }

    void close();
    /// Workers that have joined and have not ended, as the first server knows.
    std::uint32_t present() const { return shards_.front()->present(); }
    /// Why it cannot go on; nothing as long as it can.
    std::optional<std::string> failure() const;
    /// Readable when it has failed.
    int failure_descriptor() const { return heard_.number(); }

  private:
    ServerOptions options_;
    Fd bell_;   // a socket, which Python's loops can wait for
    Fd heard_;  // its other end
    mutable std::mutex mutex_;
    std::optional<std::string> failure_;  // under the mutex
    std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace unisono::server
