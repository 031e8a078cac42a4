#pragma once

#include <map>
#include <span>
#include <unordered_map>
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
using Waits = std::map<const Operation*, Waiting>;

/// What has not ended, at one moment.
struct Moment {
    std::vector<std::pair<Operation*, const Engine*>> operations;
    std::unordered_map<const Lane*, std::vector<Operation*>> parked;  // the next one first
};

/// Which operations never end as things are. All that has not begun or waits inside is taken for stuck until
/// it is seen to end if those do that are not stuck; what is left then keeps itself from moving. It is looked
/// at in the order of pushes, until no more is seen to end: dependencies point backwards, so there are as
/// many rounds as waits and lanes that point forwards. It would not do to begin with one and to add what
/// cannot end without it: of two that hold a lane of width two and wait for a third, each would do if the
/// other ended.
class Stuck {
  public:
    /// As far as has to be known of what is awaited.
    Stuck(const Moment& moment, const Waits& waits, const Awaited& awaited);

    bool contains(const Awaited& awaited) const;

  private:
    struct Suspect {
        std::uint64_t serial;
        Operation* operation;
        const Engine* engine;
        const Waiting* waiting;  // if it waits inside
        bool is_stuck;
        bool has_lanes;  // as of when it was first seen: it may let go of them meanwhile
    };
    struct Before {
        bool reads = false, mutates = false, accumulates = false, accumulates_now = false;
        Mode last = Mode::mutate;

        bool keeps(Mode mode);
        void note(Mode mode);
    };

    void suspect(Operation& operation, const Engine* engine, const Waits& waits);
    void clear(Suspect& suspect);
    void look();
    void look_at_lanes();
    bool is_kept(const Suspect& suspect, bool by_a_variable) const;
    bool lacks_a_lane(const Operation& operation) const;
    bool is_full(const Demand& demand) const;

    const Moment& moment_;
    std::vector<Suspect> suspects_;                                 // in the order of pushes
    std::unordered_map<const Operation*, const Suspect*> awaited_;  // by somebody
    std::unordered_map<const Lane*, std::uint64_t> held_;           // for ever
    std::unordered_map<const Lane*, const Operation*> barred_;      // whoever comes after this one
    bool has_cleared_ = false;
};

}  // namespace unisono::engine
