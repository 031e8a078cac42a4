#pragma once

#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/operation.hpp"

namespace unisono::engine {

/// What an operation waits for inside.
struct Awaited {
    Engine* engine;
    Operation* operation;  // nothing: all of that engine
};

/// Operations that wait inside, of all engines.
struct Waiting {
    Engine* engine;  // of the operation
    Awaited awaited;
};
using Waits = std::map<Operation*, Waiting>;

/// What has not ended, at one moment.
struct Moment {
    std::vector<std::pair<Operation*, const Engine*>> operations;
    std::unordered_map<const Lane*, std::vector<Operation*>> parked;  // the next one first
};

/// Which operations never end, given that one of them does not. It is what they find before them in the
/// queues of their variables, or in their lanes, or what they wait for inside. All that has not ended is
/// looked at in the order of pushes, until no more is found: dependencies point backwards, so there are as
/// many rounds as waits and lanes that point forwards.
class Stuck {
  public:
    Stuck(Moment moment, const Waits& waits, Operation& self);

    bool contains(const Awaited& awaited) const {
        return awaited.operation != nullptr ? stuck_.contains(awaited.operation)
                                            : engines_.contains(awaited.engine);
    }

  private:
    struct Before {
        bool reads = false, mutates = false, accumulates = false, accumulates_now = false;
        Mode last = Mode::mutate;

        bool keeps(Mode mode);
        void note(Mode mode);
    };

    void look();
    void look_at_lanes();
    bool waits_for_one(Operation& operation) const;
    bool lacks_a_lane(const Operation& operation) const;
    bool is_full(const Demand& demand) const;
    void add(Operation& operation, const Engine* engine);

    Moment moment_;
    const Waits& waits_;
    std::unordered_set<Operation*> stuck_;
    std::unordered_set<const Engine*> engines_;                 // that have such
    std::unordered_map<const Lane*, std::uint64_t> held_;       // for ever
    std::unordered_map<const Lane*, const Operation*> barred_;  // whoever comes after this one
    bool found_ = false;
};

}  // namespace unisono::engine
