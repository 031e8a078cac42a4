#include "bind/engine_python.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "bind/interpreter.hpp"

namespace nb = nanobind;

namespace unisono::bind {

using engine::Engine;
using engine::Operation;

namespace {

engine::Stack<Kept> dropped;

thread_local PyThreadState* state_of_this_thread = nullptr;
thread_local PyGILState_STATE first_state;

PyObject* object(void* pointer) { return static_cast<PyObject*>(pointer); }

void let_go(Operation& operation) {
    for (void** each : {&operation.subject, &operation.title, &operation.result})
        Py_XDECREF(object(std::exchange(*each, nullptr)));
}

}  // namespace

Python::Python(nb::handle errors) : errors_(PyWeakref_NewRef(errors.ptr(), nullptr)) {
    if (errors_ == nullptr) throw nb::python_error();
}

Python::~Python() {
    if (interpreter_ends()) return;
    const WithInterpreter here;
    Py_DECREF(errors_);
}

nb::object Python::errors() const { return nb::borrow(PyWeakref_GetObject(errors_)); }

std::shared_ptr<void> Python::keep(std::uint64_t serial, nb::object error) const {
    const auto dictionary = errors();
    if (!dictionary.is_none()) dictionary[nb::int_(serial)] = error;
    return {new Kept{Py_NewRef(errors_), serial}, [](Kept* each) { dropped.put(*each); }};
}

Python& python_of(Engine& engine) { return static_cast<Python&>(*engine.interpreter()); }

void Python::enter() {
    unless_it_ended([] {
        if (state_of_this_thread != nullptr) {
            PyEval_RestoreThread(state_of_this_thread);
            return;
        }
        first_state = PyGILState_Ensure();
        state_of_this_thread = PyGILState_GetThisThreadState();
    });
}

void Python::leave() { PyEval_SaveThread(); }

void Python::forget_thread() {
    if (state_of_this_thread == nullptr) return;
    unless_it_ended([] { PyEval_RestoreThread(std::exchange(state_of_this_thread, nullptr)); });
    PyGILState_Release(first_state);
}

bool Python::is_tidy() const { return disposed_.empty() && dropped.empty(); }

void Python::tidy() {
    for (auto* each = dropped.take_all(); each != nullptr;) {
        const std::unique_ptr<Kept> now(std::exchange(each, each->next));
        const nb::object errors = nb::borrow(PyWeakref_GetObject(now->errors));
        if (!errors.is_none()) errors.attr("pop")(now->serial, nb::none());
        Py_DECREF(now->errors);
    }
    for (auto* each = disposed_.take_all(); each != nullptr;) {
        Operation& operation = *std::exchange(each, each->next);
        let_go(operation);
        engine_->give_back(operation);
    }
}

void Python::end() {
    if (is_tidy() || interpreter_ends()) return;
    const WithInterpreter here;
    tidy();
}

void Python::dispose(Engine& engine, Operation& operation) {
    const bool has_objects =
        operation.subject != nullptr || operation.title != nullptr || operation.result != nullptr;
    if (has_objects && PyGILState_Check() == 0) {
        engine_ = &engine;
        disposed_.put(operation);
        if (engine.closed())
            end();  // no thread is left to do it
        else
            engine.crew().nudge();
        return;
    }
    if (has_objects) let_go(operation);
    engine.give_back(operation);
}

Lines::~Lines() {
    if (interpreter_ends()) return;
    const WithInterpreter here;
    for (const auto& line : lines_) Py_DECREF(line.code);
}

std::uint32_t Lines::caller() {
    auto* frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame != nullptr) {
        const nb::object held = nb::steal(reinterpret_cast<PyObject*>(frame));
        if (const auto number = number_of(frame)) return number;
        frame = PyFrame_GetBack(frame);
    }
    return 0;
}

/// 0 for a line of our own.
std::uint32_t Lines::number_of(PyFrameObject* frame) {
    constexpr std::size_t most = 1 << 16;
    nb::object held = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    auto* const code = reinterpret_cast<PyCodeObject*>(held.ptr());
    const int instruction = PyFrame_GetLasti(frame);
    const auto key = reinterpret_cast<std::uintptr_t>(code) + static_cast<std::uintptr_t>(instruction);
    if (const auto found = numbers_.find(key); found != numbers_.end()) return found->second;
    const char* const file = PyUnicode_AsUTF8(code->co_filename);
    const bool is_ours = file != nullptr && std::string_view(file).starts_with(ours_);
    if (file == nullptr) PyErr_Clear();
    if (lines_.size() >= most) return 0;
    lines_.push_back({reinterpret_cast<PyCodeObject*>(held.release().ptr()), instruction});
    return numbers_[key] = is_ours ? 0 : static_cast<std::uint32_t>(lines_.size());
}

std::string Lines::name(std::uint32_t number) const {
    if (number == 0) return "an unknown line";
    const auto& [code, instruction] = lines_.at(number - 1);
    return std::string(PyUnicode_AsUTF8(code->co_filename)) + ":" +
           std::to_string(PyCode_Addr2Line(code, instruction));
}

}  // namespace unisono::bind
