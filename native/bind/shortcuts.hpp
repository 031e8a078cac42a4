#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "bind/arguments.hpp"
#include "bind/core.hpp"
#include "bind/held.hpp"

namespace unisono::bind {

/// A plan of either kind.
using AnyPlan = std::variant<std::shared_ptr<const LinkPlan>, std::shared_ptr<const SharedPlan>>;

/// All that a call is made of, besides its arrays.
struct Recipe {
    AnyPlan plan;
    double seconds;  // until its deadline
    Label label;
};

/// A call that Python has made: what was decided, and on which memory.
struct Lesson {
    Recipe recipe;
    Array in;
    Array out;
    std::thread::id by;
};

/// Calls that were made before with the same arguments, but for the contents and places of their arrays: they
/// are made again without asking Python. It decides on all others, and when there is something to heed.
/// Used by who holds the interpreter.
class Shortcuts {
  public:
    /// `sites` numbers the lines of the program: at(code, instruction) is 0 for our own. `fail` raises what a
    /// failed call has to raise.
    Shortcuts(Core core, nanobind::object sites, nanobind::object fail)
        : core_(std::move(core)), sites_(std::move(sites)), fail_(std::move(fail)) {}

    /// The call's result, if it was made. Throws what its failure raises.
    std::optional<nanobind::object> make(const Arguments& arguments);

    struct Started {
        std::shared_ptr<Ticket> ticket;
        nanobind::object result;  // when it is through
    };
    /// Nothing if it was not started.
    std::optional<Started> start(const Arguments& arguments);

    /// What a slow call was made of, and with which arguments and result.
    void note(Lesson lesson) { lesson_ = std::move(lesson); }
    void forget_note() { lesson_.reset(); }
    void learn(const Arguments& arguments, PyObject* result);

    /// While it is held by anybody, Python decides on all calls.
    void hold() { ++holds_; }
    void release() { --holds_; }
    void forget() { known_.clear(); }
    /// No more calls; the executor may go.
    void close() { core_ = {nullptr, nullptr}; }
    void set_epoch(std::uint64_t epoch) { epoch_ = epoch; }

    /// How often each kind of call was made here.
    std::unordered_map<std::uint32_t, std::uint64_t> uses() const { return uses_; }

  private:
    struct Known;
    using Table = std::unordered_multimap<std::size_t, std::shared_ptr<Known>>;

    /// Opens the views, too. Nothing for a call that is not known, or while it is held.
    std::shared_ptr<Known> find(const Arguments& arguments, Views& views) const;
    bool is_open() const { return holds_ == 0 && core_.executor && core_.executor->is_whole(); }
    std::uint32_t line(Known& known);
    static nanobind::object result_of(const Known& known, const Arguments& arguments);
    Request request(Known& known, const Views& views);
    bool run(const AnyPlan& plan, const Request& request, std::exception_ptr& failure) const;

    Core core_;
    nanobind::object sites_;
    nanobind::object fail_;
    Table known_;
    std::unordered_set<PyObject*> ours_;  // code objects of unisono, which calls come through
    std::optional<Lesson> lesson_;
    std::unordered_map<std::uint32_t, std::uint64_t> uses_;
    int holds_ = 0;
    std::uint64_t epoch_ = 0;
};

}  // namespace unisono::bind
