#pragma once

#include <memory>

#include "execute/executor.hpp"
#include "execute/queue.hpp"

namespace unisono::bind {

/// An executor and its calls; both are shared with the thread that runs what was started.
struct Core {
    std::shared_ptr<Executor> executor;
    std::shared_ptr<CallQueue> calls = std::make_shared<CallQueue>();
};

}  // namespace unisono::bind
