#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "engine/operation.hpp"

namespace unisono::engine {

/// A resource that takes so much at once: operations, or bytes of them.
class Lane {
  public:
    Lane(std::string name, std::uint64_t capacity) : name_(std::move(name)), capacity_(capacity) {}

    const std::string& name() const { return name_; }
    std::uint64_t capacity() const { return capacity_; }

  private:
    friend class Lanes;
    bool has_room(std::uint64_t amount) const { return amount <= capacity_ - used_; }
    /// Nobody else who waits comes first.
    bool is_next(const Operation& operation) const {
        return parked_.empty() || parked_.front() == &operation || comes_later(parked_.front(), &operation);
    }
    void park(Operation& operation);
    Operation& unpark();

    std::string name_;
    std::uint64_t capacity_;
    std::uint64_t used_ = 0;
    std::vector<Operation*> parked_;  // a heap: the first one is next
};

/// Gives operations all that they demand, or nothing: so no two of them can each have what the other needs.
/// Who comes first is served first, also if it needs much and others little.
class Lanes {
  public:
    /// False if it is kept until there is room. One that was cancelled needs none.
    bool acquire(Operation& operation);

    /// One that was cancelled waits no longer. False if it did not wait. Adds those that may begin now.
    bool withdraw(Operation& operation, std::vector<Operation*>& may_begin);

    /// Adds those that may begin now.
    void release(Operation& operation, std::vector<Operation*>& may_begin);

    /// Who is parked in a lane, the next one first.
    std::vector<Operation*> parked(const Lane& lane);

  private:
    /// Where it has to wait, because others come first or there is no room.
    static Lane* obstacle(const Operation& operation);
    static void take(Operation& operation);
    static void serve(Lane& lane, std::vector<Operation*>& may_begin);

    std::mutex mutex_;
};

}  // namespace unisono::engine
