#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

#include "execute/caller.hpp"
#include "execute/watch.hpp"

namespace unisono::bind {

inline Clock::time_point after(double seconds, Clock::time_point now = Clock::now()) {
    constexpr double longest = 1e9;  // 31 years: the clock cannot count much further
    const std::chrono::duration<double> time(seconds < longest ? seconds : longest);
    return now + std::chrono::duration_cast<Clock::duration>(time);
}

inline bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

/// Python ends a thread that comes for the interpreter after its end by unwinding it, and to unwind a
/// destructor is to abort the process. Such a thread stays here, for the moment that the process has left.
template <class Take>
void unless_it_ended(Take take) {
    try {
        while (interpreter_ends()) ::pause();
        take();
    } catch (const abi::__forced_unwind&) {  // it ended meanwhile
        for (;;) ::pause();
    }
}

/// This thread has the interpreter meanwhile.
class WithInterpreter {
  public:
    WithInterpreter() {
        unless_it_ended([this] { state_ = PyGILState_Ensure(); });
    }
    WithInterpreter(const WithInterpreter&) = delete;
    WithInterpreter& operator=(const WithInterpreter&) = delete;
    ~WithInterpreter() { PyGILState_Release(state_); }

  private:
    PyGILState_STATE state_{};
};

/// Other threads have the interpreter meanwhile. Who ends it waits for threads that are to come back.
class WithoutInterpreter {
  public:
    WithoutInterpreter() {
        if (interpreter_ends()) return;  // in the one thread that is left, which ends it
        state_ = PyEval_SaveThread();
        ++threads_;
    }
    WithoutInterpreter(const WithoutInterpreter&) = delete;
    WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;
    ~WithoutInterpreter() {
        if (state_ == nullptr) return;
        unless_it_ended([this] { PyEval_RestoreThread(state_); });
        --threads_;
    }

    /// So many threads are without it.
    static int threads() { return threads_; }
    /// In a forked child, which has none of them.
    static void forget_threads() { threads_ = 0; }

  private:
    inline static std::atomic<int> threads_ = 0;
    PyThreadState* state_ = nullptr;
};

/// Of this process, or of a forked child, whose main thread is the one that forked. Python handles signals
/// there.
inline bool is_main_thread() { return ::gettid() == ::getpid(); }

/// Lets Python handle signals; without the interpreter's lock. Others than the main thread have none to
/// handle, and may come after the end of the interpreter, when its lock is not to be had.
inline void check_signals() {
    if (!is_main_thread()) return;
    const nanobind::gil_scoped_acquire gil;  // not to be unwound: this is the thread that ends it
    if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

/// A thread of Python's that makes a call, and holds the interpreter as long as that is shorter than to hand
/// it over and take it back.
class PythonThread final : public Caller {
  public:
    void takes_a_while() override {
        if (!elsewhere_) elsewhere_.emplace();
    }
    void look_up() override { check_signals(); }

  private:
    std::optional<WithoutInterpreter> elsewhere_;
};

/// Where a call runs that a thread of Python's may only have started: signals are handled by that thread.
class AnyThread final : public Caller {
  public:
    explicit AnyThread(std::thread::id python) : python_(python) {}
    void look_up() override {
        if (std::this_thread::get_id() == python_) check_signals();
    }

  private:
    std::thread::id python_;
};

}  // namespace unisono::bind
