// The handle of an operation. Not a class of nanobind's: those are entered into a table when they are made.

#include <nanobind/stl/string.h>
#include <structmember.h>

#include <new>

#include "bind/engine_python.hpp"
#include "bind/interpreter.hpp"

namespace nb = nanobind;

namespace unisono::bind {

using engine::Operation;

namespace {

struct Handle {
    PyObject ob_base;
    PyObject* weak;
    Operation* operation;
    std::shared_ptr<engine::Engine> engine;
    std::shared_ptr<Lines> lines;
    PyObject* errors;
};

PyTypeObject* the_type = nullptr;

Handle& cast(PyObject* self) { return *reinterpret_cast<Handle*>(self); }

void destroy(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (cast(self).weak != nullptr) PyObject_ClearWeakRefs(self);
    auto& handle = cast(self);
    handle.engine->forget(*handle.operation);
    std::destroy_at(&handle.engine);
    std::destroy_at(&handle.lines);
    Py_CLEAR(handle.errors);
    type->tp_free(self);
    Py_DECREF(type);
}

/// What an operation has belongs to its handle, if that is all who knows of it.
bool owns(const Handle& handle) {
    return handle.operation->is_over() && handle.operation->references.load() == 1;
}

int visit(PyObject* self, visitproc visit, void* arg) {
    auto& handle = cast(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(handle.errors);
    if (!owns(handle)) return 0;
    Py_VISIT(static_cast<PyObject*>(handle.operation->result));
    Py_VISIT(static_cast<PyObject*>(handle.operation->subject));  // if it never ran
    return 0;
}

int clear(PyObject* self) {
    auto& handle = cast(self);
    if (!owns(handle)) return 0;
    Py_XDECREF(static_cast<PyObject*>(std::exchange(handle.operation->result, nullptr)));
    Py_XDECREF(static_cast<PyObject*>(std::exchange(handle.operation->subject, nullptr)));
    return 0;
}

/// A forked child does not know of what was not over before: there, it never will be.
bool is_over(const Handle& handle) {
    if (handle.operation->is_over()) return true;
    handle.engine->origin().require("the engine of this operation");
    return false;
}

std::string description(const Handle& handle) {
    return name_of(*handle.operation) + ", pushed at " + handle.lines->name(handle.operation->site);
}

PyObject* wait(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return raising([&] {
        const auto named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
        const bool fits =
            count + named <= 1 &&
            (named == 0 || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "deadline") == 0);
        if (!fits) raise_config("wait takes deadline=, in seconds");
        auto& handle = cast(self);
        if (!wait_for(*handle.engine, *handle.operation, count + named == 0 ? Py_None : values[0]))
            raise(nb::module_::import_("unisono.engine.words")
                      .attr("late")(description(handle), nb::handle(values[0])));
        if (const auto failure = handle.operation->failure) {
            handle.engine->was_told(*failure);
            auto error = error_of(*failure, *handle.lines, handle.errors);
            raise(error);
        }
        auto* const result = static_cast<PyObject*>(handle.operation->result);
        if (handle.operation->result_is_call) return PyObject_CallNoArgs(result);
        return Py_NewRef(result == nullptr ? Py_None : result);
    });
}

PyObject* exception(PyObject* self, PyObject*) {
    return raising([&] {
        auto& handle = cast(self);
        if (!is_over(handle) || !handle.operation->failure) return Py_NewRef(Py_None);
        handle.engine->was_told(*handle.operation->failure);
        return error_of(*handle.operation->failure, *handle.lines, handle.errors).release().ptr();
    });
}

PyObject* done(PyObject* self, PyObject*) {
    return raising([&] { return PyBool_FromLong(is_over(cast(self)) ? 1 : 0); });
}

PyObject* cancel(PyObject* self, PyObject*) {
    return raising([&] {
        auto& handle = cast(self);
        return PyBool_FromLong(!is_over(handle) && handle.engine->cancel(*handle.operation) ? 1 : 0);
    });
}

PyObject* get_name(PyObject* self, void*) {
    return raising([&] { return nb::cast(name_of(*cast(self).operation)).release().ptr(); });
}

PyObject* get_where(PyObject* self, void*) {
    return raising(
        [&] { return nb::cast(cast(self).lines->name(cast(self).operation->site)).release().ptr(); });
}

PyObject* get_serial(PyObject* self, void*) {
    return PyLong_FromUnsignedLongLong(cast(self).operation->serial);
}

PyObject* represent(PyObject* self) {
    return raising([&] {
        const auto& operation = *cast(self).operation;
        const char* const how = !operation.is_over()           ? "under way"
                                : !operation.failure           ? "done"
                                : operation.failure->cancelled ? "cancelled"
                                                               : "failed";
        return nb::cast("<Operation " + description(cast(self)) + ", " + how + ">").release().ptr();
    });
}

PyCFunction as_function(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"wait", as_function(&wait), METH_FASTCALL | METH_KEYWORDS,
     "wait($self, deadline=None)\n--\n\nThe result; raises what the operation raised, or what it depends "
     "on."},
    {"done", &done, METH_NOARGS, "done($self)\n--\n\nIs it through, well or badly?"},
    {"cancel", &cancel, METH_NOARGS,
     "cancel($self)\n--\n\nDo not run it, if it has not begun; what depends on it is not run either."},
    {"exception", &exception, METH_NOARGS,
     "exception($self)\n--\n\nWhat `wait` would raise, if it is through."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef properties[] = {
    {"name", &get_name, nullptr, "What it runs, or the name that it was given.", nullptr},
    {"where", &get_where, nullptr, "file:line of its push.", nullptr},
    {"serial", &get_serial, nullptr, "Its place in the order of pushes.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Handle, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {Py_tp_traverse, reinterpret_cast<void*>(&visit)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&represent)},
    {Py_tp_doc, const_cast<char*>("An operation that was pushed.")},
    {0, nullptr},
};

PyType_Spec spec{
    .name = "unisono._native.Operation",
    .basicsize = sizeof(Handle),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

}  // namespace

PyObject* handle_of(const PyEngine& engine, Operation& operation) {
    auto* const made = PyObject_GC_New(Handle, the_type);
    if (made == nullptr) {
        engine.engine->forget(operation);
        return nullptr;
    }
    auto& handle = *made;
    auto* const self = reinterpret_cast<PyObject*>(made);
    handle.weak = nullptr;
    handle.errors = python_of(*engine.engine).errors().release().ptr();
    handle.operation = &operation;
    new (&handle.engine) std::shared_ptr<engine::Engine>(engine.engine);
    new (&handle.lines) std::shared_ptr<Lines>(engine.lines);
    PyObject_GC_Track(self);
    return self;
}

PyTypeObject* handle_type() { return the_type; }

void make_handle_type(nb::module_& module) {
    const nb::object type = nb::steal(PyType_FromSpec(&spec));
    if (!type.is_valid()) throw nb::python_error();
    the_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type.ptr()));
    module.attr("Operation") = type;
}

namespace {

void check_seconds(PyObject* seconds) {
    double given = 0;
    if (seconds != Py_None && (!nb::try_cast(nb::handle(seconds), given) || !(given >= 0) || given > 1e9))
        raise_config("a deadline is a number of seconds from 0 up, or None");
}

}  // namespace

bool wait_for(engine::Engine& engine, Operation& operation, PyObject* seconds) {
    if (operation.is_over()) return true;
    check_seconds(seconds);
    const auto until =
        seconds == Py_None ? Clock::time_point::max() : after(nb::cast<double>(nb::handle(seconds)));
    try {
        const WithoutInterpreter elsewhere;
        return engine.wait(operation, [&] {
            check_signals();
            return Clock::now() < until;
        });
    } catch (const engine::NeverEnds& error) {
        auto* const self = engine::Engine::current_of_all();
        const auto who = self == nullptr ? std::string("a wait") : "operation " + name_of(*self) + " waits";
        raise_config(who + " for operation " + name_of(operation) + ": " + error.what());
    }
}

bool ends(const PyEngine& engine, nb::handle operation, nb::handle seconds) {
    if (Py_TYPE(operation.ptr()) != the_type) raise_config("ends takes an operation");
    auto& handle = cast(operation.ptr());
    (void)engine;  // it may be another one's
    return wait_for(*handle.engine, *handle.operation, seconds.ptr());
}

}  // namespace unisono::bind
