#include "server/server.hpp"

#include <sys/socket.h>

#include <tuple>
#include <utility>

#include "base/error.hpp"

namespace unisono::server {

namespace {

std::pair<Fd, Fd> pair_of_sockets() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
    return {Fd(ends[0]), Fd(ends[1])};
}

}  // namespace

Server::Server(ServerOptions options) : options_(std::move(options)) {
    std::tie(bell_, heard_) = pair_of_sockets();
    for (std::uint32_t thread = 0; thread < options_.threads; ++thread) {
        ShardOptions mine = options_.shards;
        mine.shard = options_.server * options_.threads + thread;
        mine.shards = options_.servers * options_.threads;
        mine.threads = options_.threads;
        mine.failed = [this](const std::string& why) {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_ = why;
            ::send(bell_.number(), "!", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        };
        shards_.push_back(std::make_unique<Shard>(std::move(mine)));
        if (options_.server != 0 || thread == 0) continue;
        auto [first, other] = pair_of_sockets();
        adopt_peer(std::move(first), thread);
        adopt_coordinator(std::move(other), thread);
    }
}

void Server::adopt_worker(Connection connection, std::uint32_t worker, std::uint32_t thread) {
    shards_.at(thread)->adopt(std::move(connection), Shard::Role::worker, worker);
}

void Server::adopt_peer(Fd socket, std::uint32_t shard) {
    shards_.at(0)->adopt(Connection(std::move(socket)), Shard::Role::peer, shard);
}

void Server::adopt_coordinator(Fd socket, std::uint32_t thread) {
    shards_.at(thread)->adopt(Connection(std::move(socket)), Shard::Role::coordinator, 0);
}

void Server::close() {
    for (const auto& shard : shards_) shard->begin_to_close();
    for (const auto& shard : shards_) shard->close();
    bell_ = Fd();
    heard_ = Fd();
}

std::optional<std::string> Server::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

}  // namespace unisono::server
