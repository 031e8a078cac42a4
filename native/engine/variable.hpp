#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "engine/operation.hpp"
#include "engine/spin.hpp"

namespace unisono::engine {

/// Something that operations read and write. It grants access in the order in which it was asked for: to one
/// that mutates, or to a run of neighbours in that order which all read, or all accumulate. Who awaits it is
/// granted when all accesses have ended that were asked for before.
class Variable {
  public:
    /// Without a name, it is called by its number.
    Variable(std::string name, std::uint64_t number)
        : name_(std::move(name)), number_(number), is_named_(!name_.empty()) {
        if (!is_named_) name_.append("v").append(std::to_string(number));
    }

    /// True if it is granted at once.
    bool append(Access& access);

    /// Ends a granted access. Those that are granted by that, in a list.
    Access* release(const Access& access, const FailurePtr& failure, bool heals);

    /// What an operation has to know before it begins; does not change while it has the access.
    const FailurePtr& failure(Mode mode) const { return mode == Mode::accumulate ? before_run_ : failure_; }

    /// Where those that accumulate take turns. Made when first asked for, by who holds the engine's lock.
    const std::shared_ptr<Lane>& turn();

    const std::string& name() const { return name_; }
    std::uint64_t number() const { return number_; }
    bool is_named() const { return is_named_; }

    std::atomic<std::uint32_t> references = 1;
    std::atomic<bool> deleted = false;
    Variable* next = nullptr;  // among those that nobody needs any more

  private:
    bool may_join(Mode mode) const { return active_ == 0 || (mode == mode_ && mode != Mode::mutate); }
    void grant(Mode mode);
    bool await(Access& access);
    void look(const Access& access);
    Access* granted_next();
    Access* awaited_until(std::uint32_t position);

    Spin lock_;
    Mode mode_ = Mode::mutate;  // of the last one that was granted
    std::uint32_t active_ = 0;
    std::uint32_t unended_ = 0;  // also those that wait
    std::uint32_t positions_ = 0;
    Access* awaiting_ = nullptr;
    Access* first_ = nullptr;  // that waits
    Access* last_ = nullptr;
    FailurePtr failure_;
    FailurePtr
        before_run_;  // as it was before the run of those that accumulate: they do not see each other's
    std::string name_;
    std::uint64_t number_;
    bool is_named_;
    std::shared_ptr<Lane> turn_;
};

}  // namespace unisono::engine
