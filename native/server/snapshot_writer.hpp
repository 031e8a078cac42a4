#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/fork.hpp"

namespace unisono::server {

/// Writes snapshots to disk while the shard goes on, one thing at a time.
class SnapshotWriter {
  public:
    struct Result {
        std::uint64_t number;
        std::string trouble;  // empty: it is done
    };

    /// `ring` is called from its thread whenever there is a result.
    explicit SnapshotWriter(std::function<void()> ring) : ring_(std::move(ring)) {}
    ~SnapshotWriter() { close(); }
    SnapshotWriter(const SnapshotWriter&) = delete;
    SnapshotWriter& operator=(const SnapshotWriter&) = delete;

    /// What is to be done for the snapshot of this number, when the last thing is done.
    void start(std::uint64_t number, std::function<void()> work);
    std::vector<Result> take_results();
    /// When all is done. May be called twice.
    void close();

  private:
    struct Task {
        std::uint64_t number;
        std::function<void()> work;
    };
    void run();

    Origin origin_;
    std::function<void()> ring_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Task> task_;  // until it is done
    std::vector<Result> results_;
    bool closing_ = false;
    std::thread thread_;  // from the first snapshot on
};

}  // namespace unisono::server
