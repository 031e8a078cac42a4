// What operations do that Python pushes.

#include <nanobind/stl/string.h>
#include <unistd.h>

#include "bind/engine_python.hpp"
#include "bind/engine_token.hpp"
#include "bind/interpreter.hpp"

namespace nb = nanobind;

namespace unisono::bind {

using engine::Body;
using engine::Engine;
using engine::Failure;
using engine::FailurePtr;
using engine::Operation;

namespace {

PyObject* callable_of(const Operation& operation) { return static_cast<PyObject*>(operation.subject); }

/// The exception that is set, no more.
nb::object take_error() {
    PyObject *kind = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&kind, &value, &trace);
    PyErr_NormalizeException(&kind, &value, &trace);
    if (trace != nullptr) PyException_SetTraceback(value, trace);
    Py_XDECREF(kind);
    Py_XDECREF(trace);
    return nb::steal(value);
}

/// Of the exception that is set.
FailurePtr failure_of(Engine& engine, const Operation& operation) {
    return std::make_shared<Failure>(Failure{operation.serial, nullptr,
                                             python_of(engine).keep(operation.serial, take_error()), false,
                                             name_of(operation), operation.site});
}

/// An operation has forked, and this is the child, which goes on behind the call of fork like its parent.
/// What else the engine has to do is its parent's: so the process ends with the operation, as it would with a
/// thread of Python's.
[[noreturn]] void end_child(bool succeeded) {
    if (!succeeded) PyErr_Print();  // which ends the process if it is SystemExit
    PyObject* const words = PyImport_ImportModule("unisono.engine.words");
    PyObject* const flushed = words == nullptr ? nullptr : PyObject_CallMethod(words, "flush", nullptr);
    if (flushed == nullptr) PyErr_Print();
    ::_exit(succeeded ? 0 : 1);
}

/// No handler for all exceptions, and nothing with a destructor, around calls of Python: the thread may be
/// unwound there when the interpreter ends.
class FunctionBody final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override {
        PyObject* const result = PyObject_CallNoArgs(callable_of(operation));
        if (!engine.origin().is_here()) end_child(result != nullptr);
        end_call(engine, operation, result);
    }
    bool needs_interpreter() const override { return true; }
    const char* name() const override { return "function"; }

  private:
    static void end_call(Engine& engine, Operation& operation, PyObject* result) {
        FailurePtr failure;
        if (result == nullptr) failure = failure_of(engine, operation);
        if (operation.references.load(std::memory_order_relaxed) == 1) {  // nobody asks
            Py_CLEAR(result);
        } else if (operation.title == nullptr && PyFunction_Check(callable_of(operation))) {
            operation.title =
                Py_NewRef(reinterpret_cast<PyFunctionObject*>(callable_of(operation))->func_qualname);
        }
        operation.result = result;
        Py_DECREF(static_cast<PyObject*>(std::exchange(operation.subject, nullptr)));  // and what it captures
        engine.finish(operation, std::move(failure), true);
    }
};

class AsynchronousBody final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override {
        if (operation.result_is_call) return conclude(engine, operation);
        PyObject* const token = make_token(engine, operation);
        PyObject* const result =
            token == nullptr ? nullptr : PyObject_CallOneArg(callable_of(operation), token);
        if (!engine.origin().is_here()) end_child(result != nullptr);
        if (result == nullptr) fail_token(token);
        Py_XDECREF(result);
        Py_DECREF(static_cast<PyObject*>(std::exchange(operation.subject, nullptr)));  // and what it captures
        Py_XDECREF(token);
    }
    bool needs_interpreter() const override { return true; }
    const char* name() const override { return "asynchronous"; }

  private:
    /// A call that it has started has failed: of what, Python has to say.
    static void conclude(Engine& engine, Operation& operation) {
        PyObject* const result = PyObject_CallNoArgs(static_cast<PyObject*>(operation.result));
        end_conclusion(engine, operation, result);
    }
    static void end_conclusion(Engine& engine, Operation& operation, PyObject* result) {
        FailurePtr failure;
        if (result == nullptr) failure = failure_of(engine, operation);
        operation.result_is_call = false;
        Py_XDECREF(static_cast<PyObject*>(std::exchange(operation.result, result)));
        engine.finish(operation, std::move(failure), true);
    }
    /// With the exception that is set.
    static void fail_token(PyObject* token) { nb::inst_ptr<Token>(token)->fail(take_error()); }
    static PyObject* make_token(Engine& engine, Operation& operation) {
        return nb::cast(new Token(engine.shared_from_this(), operation), nb::rv_policy::take_ownership)
            .release()
            .ptr();
    }
};

class NativeBody final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override {
        FailurePtr failure;
        const auto& native = *nb::inst_ptr<PyNative>(nb::handle(callable_of(operation)));
        try {
            native.run();
        } catch (const std::exception&) {
            failure = std::make_shared<Failure>(Failure{operation.serial, std::current_exception(), nullptr,
                                                        false, native.name, operation.site});
        }
        engine.finish(operation, std::move(failure), true);
    }
    const char* name() const override { return "native"; }
};

class NothingBody final : public Body {
  public:
    void run(Engine& engine, Operation& operation) const override { engine.finish(operation, nullptr, true); }
    const char* name() const override { return "nothing"; }
};

const FunctionBody the_function;
const AsynchronousBody the_asynchronous;
const NativeBody the_native;
const NothingBody the_nothing;

}  // namespace

const Body& function_body() { return the_function; }
const Body& asynchronous_body() { return the_asynchronous; }
const Body& native_body() { return the_native; }
const Body& nothing_body() { return the_nothing; }

namespace {

/// Of a callable, without running any Python: this is asked for where others wait for us, and with locks
/// held.
std::string name_of_callable(PyObject* callable) {
    if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
    const char* name = nullptr;
    if (PyFunction_Check(callable))
        name = PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(callable)->func_qualname);
    else if (PyCFunction_Check(callable))
        name = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
    if (name == nullptr) PyErr_Clear();
    return name == nullptr ? Py_TYPE(callable)->tp_name : name;
}

}  // namespace

std::string name_of(const Operation& operation) {
    auto* const title = static_cast<PyObject*>(operation.title);
    if (title != nullptr) {
        const char* const name = PyUnicode_AsUTF8(title);
        if (name != nullptr) return name;
        PyErr_Clear();
    }
    auto* const callable = callable_of(operation);
    if (callable == nullptr) return operation.body->name();
    if (operation.body == &the_native) return nb::inst_ptr<PyNative>(nb::handle(callable))->name;
    return name_of_callable(callable);
}

std::string name_anywhere(const Operation& operation) {
    if (PyGILState_Check() == 1) return name_of(operation);
    if (operation.title == nullptr && operation.subject == nullptr) return operation.body->name();
    if (interpreter_ends()) return operation.body->name();
    const WithInterpreter here;
    return name_of(operation);
}

void require_ours(const Engine& engine, const PyVariable& variable) {
    if (variable.engine.get() != &engine)
        raise_config("variable " + variable.variable->name() + " belongs to another engine");
}

void require_alive(const PyVariable& variable) {
    if (variable.variable->deleted)
        raise_config("variable " + variable.variable->name() +
                     " was deleted; make another one: engine.variable()");
}

void raise_config(const std::string& text) {
    raise(nb::module_::import_("unisono.errors").attr("ConfigError")(text));
}

void raise(const nb::object& error) {
    PyErr_SetObject(error.type().ptr(), error.ptr());
    throw nb::python_error();
}

nb::object error_of(const Failure& failure, const Lines& lines, nb::handle errors) {
    const auto place = "operation " + failure.name + ", pushed at " + lines.name(failure.site);
    const nb::object words = nb::module_::import_("unisono.engine.words");
    if (failure.cancelled) return words.attr("cancelled")(place, failure.had_begun);
    if (failure.error) {
        const nb::object error = errors[nb::int_(failure.serial)];
        return words.attr("failed")(words.attr("placed")(error, place));
    }
    try {
        std::rethrow_exception(failure.thrown);
    } catch (const std::exception& error) {
        return words.attr("broken")(error.what(), place);
    }
}

}  // namespace unisono::bind
