#include "server/server.hpp"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/error.hpp"

namespace unisono::server {

Server::Server(ServerOptions options)
    : options_(std::move(options)), bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!bell_.valid()) throw_errno("eventfd");
    for (std::uint32_t thread = 0; thread < options_.threads; ++thread) {
        ShardOptions mine = options_.shards;
        mine.shard = options_.server * options_.threads + thread;
        mine.shards = options_.servers * options_.threads;
        mine.failed = [this](const std::string& why) {
            const std::lock_guard lock(mutex_);
            if (!failure_) failure_ = why;
            ::eventfd_write(bell_.number(), 1);
        };
        shards_.push_back(std::make_unique<Shard>(std::move(mine)));
        if (options_.server != 0 || thread == 0) continue;
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
        adopt_peer(Fd(ends[0]), thread);
        adopt_coordinator(Fd(ends[1]), thread);
    }
}

void Server::adopt_worker(Fd socket, std::uint32_t worker, std::uint32_t thread) {
    shards_.at(thread)->adopt(std::move(socket), Shard::Role::worker, worker);
}

void Server::adopt_peer(Fd socket, std::uint32_t shard) {
    shards_.at(0)->adopt(std::move(socket), Shard::Role::peer, shard);
}

void Server::adopt_coordinator(Fd socket, std::uint32_t thread) {
    shards_.at(thread)->adopt(std::move(socket), Shard::Role::coordinator, 0);
}

void Server::close() {
    for (const auto& shard : shards_) shard->begin_to_close();
    for (const auto& shard : shards_) shard->close();
}

std::optional<std::string> Server::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

}  // namespace unisono::server
