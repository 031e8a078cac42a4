#include "server/snapshot_writer.hpp"

#include <exception>
#include <utility>

namespace unisono::server {

void SnapshotWriter::start(std::uint64_t number, std::function<void()> work) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !task_; });
    task_.emplace(Task{number, std::move(work)});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
}

std::vector<SnapshotWriter::Result> SnapshotWriter::take_results() {
    const std::lock_guard lock(mutex_);
    return std::exchange(results_, {});
}

void SnapshotWriter::close() {
    if (!thread_.joinable()) return;
    if (!origin_.is_here()) return thread_.detach();  // a forked child does not have it
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void SnapshotWriter::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return closing_ || task_; });
        if (!task_) return;
        const Task& task = *task_;  // nobody else touches it until it is done
        lock.unlock();
        Result result{task.number, {}};
        try {
            task.work();
        } catch (const std::exception& error) {
            result.trouble = error.what();
        }
        lock.lock();
        task_.reset();
        results_.push_back(std::move(result));
        changed_.notify_all();
        ring_();
    }
}

}  // namespace unisono::server
