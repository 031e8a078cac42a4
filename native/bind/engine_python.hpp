#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.hpp"

namespace unisono::bind {

/// Exceptions of operations are in a dictionary of Python's, which the engine and the handles share, so that
/// its garbage collector sees them: they know frames, which know handles. This is one of them; when nobody
/// knows of its failure any more, somebody who holds the interpreter lets go of it.
struct Kept {
    PyObject* errors;  // a weak reference to the dictionary
    std::uint64_t serial;
    Kept* next = nullptr;
};

/// How the threads of one engine use Python.
class Python final : public engine::Interpreter {
  public:
    /// Exceptions by the serial numbers of operations, in a dictionary that can be referred to weakly.
    explicit Python(nanobind::handle errors);
    Python(const Python&) = delete;
    Python& operator=(const Python&) = delete;
    ~Python() override;

    void enter() override;
    void leave() override;
    void forget_thread() override;
    void tidy() override;
    bool is_tidy() const override;
    void end() override;

    /// Here, or later if this thread does not hold the interpreter.
    void dispose(engine::Engine& engine, engine::Operation& operation);

    /// The dictionary, or nothing if it is gone.
    nanobind::object errors() const;
    /// For a `Failure` of that operation.
    std::shared_ptr<void> keep(std::uint64_t serial, nanobind::object error) const;

  private:
    PyObject* errors_;
    engine::Stack<engine::Operation> disposed_;
    engine::Engine* engine_ = nullptr;
};

/// Lines of the program that push, numbered from 1; 0 is unknown. With the interpreter.
class Lines {
  public:
    /// The innermost line that is not in a file under this folder.
    explicit Lines(std::string ours) : ours_(std::move(ours)) {}
    Lines(const Lines&) = delete;
    Lines& operator=(const Lines&) = delete;
    ~Lines();

    std::uint32_t caller();
    std::string name(std::uint32_t number) const;

  private:
    struct Line {
        PyCodeObject* code;  // kept, so that no other one gets its address
        int instruction;
    };
    std::uint32_t number_of(PyFrameObject* frame);

    std::string ours_;
    std::unordered_map<std::uintptr_t, std::uint32_t> numbers_;  // by the address of the instruction
    std::vector<Line> lines_;
};

/// What `EngineCore` is made of.
struct PyEngine {
    std::shared_ptr<engine::Engine> engine;
    std::shared_ptr<Lines> lines;

    PyEngine(std::shared_ptr<engine::Engine> made, std::shared_ptr<Lines> known)
        : engine(std::move(made)), lines(std::move(known)) {}
    PyEngine(const PyEngine&) = delete;
    PyEngine& operator=(const PyEngine&) = delete;
    /// What has not begun is cancelled; nobody is waited for.
    ~PyEngine();
};

struct PyVariable {
    std::shared_ptr<engine::Engine> engine;
    engine::Variable* variable;

    PyVariable(std::shared_ptr<engine::Engine> owner, engine::Variable& given)
        : engine(std::move(owner)), variable(&given) {}
    PyVariable(const PyVariable&) = delete;
    PyVariable& operator=(const PyVariable&) = delete;
    ~PyVariable() { engine->forget(*variable); }
};

struct PyLane {
    std::shared_ptr<engine::Engine> engine;
    std::shared_ptr<engine::Lane> lane;
    bool counts_bytes;
};

/// Something that runs without the interpreter.
struct PyNative {
    std::string name;
    std::function<void()> run;
    nanobind::object keeps;  // the arrays
};

/// A function of Python's; one that gets a token, by which somebody completes it later; a native one.
const engine::Body& function_body();
const engine::Body& asynchronous_body();
const engine::Body& native_body();
const engine::Body& nothing_body();

/// For people. With the interpreter; or from any thread, also one that has it.
std::string name_of(const engine::Operation& operation);
std::string name_anywhere(const engine::Operation& operation);

/// The error that a failure is raised as.
nanobind::object error_of(const engine::Failure& failure, const Lines& lines, nanobind::handle errors);
Python& python_of(engine::Engine& engine);
[[noreturn]] void raise(const nanobind::object& error);
[[noreturn]] void raise_config(const std::string& text);

/// ConfigError for a variable of another engine, or one that was deleted.
void require_ours(const engine::Engine& engine, const PyVariable& variable);
void require_alive(const PyVariable& variable);

/// For functions that Python calls directly: what they throw is raised, that of a forked child as
/// ConfigError.
template <class Function>
PyObject* raising(Function function) {
    try {
        return function();
    } catch (nanobind::python_error& error) {
        error.restore();
    } catch (const std::exception& error) {
        try {
            raise_config(error.what());
        } catch (nanobind::python_error& raised) {
            raised.restore();
        }
    }
    return nullptr;
}

/// A handle of an operation, which takes the reference over.
PyObject* handle_of(const PyEngine& engine, engine::Operation& operation);
PyTypeObject* handle_type();
void make_handle_type(nanobind::module_& module);

/// Waits, and raises what went wrong; false if the time was over.
bool wait_for(engine::Engine& engine, engine::Operation& operation, PyObject* seconds);
bool ends(const PyEngine& engine, nanobind::handle operation, nanobind::handle seconds);

PyObject* push(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names);
PyObject* push_all(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names);

}  // namespace unisono::bind
