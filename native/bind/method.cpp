#include <nanobind/nanobind.h>
#include <structmember.h>

#include "bind/arguments.hpp"
#include "bind/bind.hpp"
#include "bind/shortcuts.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

/// A method of the communicator's class. It takes the shortcut if there is one, and otherwise asks the
/// function that it wraps, and learns from it. Not a nanobind function: those parse their arguments into new
/// containers.
struct Method {
    PyObject ob_base;
    vectorcallfunc vectorcall;
    PyObject* slow;
    PyObject* attributes;  // __doc__, __name__, __wrapped__ and so on
};

Method* cast(PyObject* self) { return reinterpret_cast<Method*>(self); }

/// The slot that a communicator keeps them in. A look-up by name takes longer than all else that is done
/// here.
const PyMemberDescrObject* find_slot(PyTypeObject* type) {
    static PyObject* const name = PyUnicode_InternFromString("_shortcuts");
    PyObject* const found = _PyType_Lookup(type, name);
    return found != nullptr && Py_TYPE(found) == &PyMemberDescr_Type
               ? reinterpret_cast<const PyMemberDescrObject*>(found)
               : nullptr;
}

Shortcuts* shortcuts_of(PyObject* communicator) {
    static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<Shortcuts>().ptr());
    const auto* const slot = find_slot(Py_TYPE(communicator));
    if (slot == nullptr) return nullptr;
    PyObject* const found =
        *reinterpret_cast<PyObject**>(reinterpret_cast<std::byte*>(communicator) + slot->d_member->offset);
    return found != nullptr && Py_TYPE(found) == type ? nb::inst_ptr<Shortcuts>(found) : nullptr;
}

PyObject* call_slowly(Shortcuts* shortcuts, PyObject* self, const Arguments& arguments, PyObject* const* raw,
                      std::size_t count) {
    if (shortcuts == nullptr) return PyObject_Vectorcall(cast(self)->slow, raw, count, arguments.names);
    shortcuts->forget_note();
    PyObject* const result = PyObject_Vectorcall(cast(self)->slow, raw, count, arguments.names);
    if (result != nullptr) shortcuts->learn(arguments, result);
    return result;
}

PyObject* call(PyObject* self, PyObject* const* raw, std::size_t flags, PyObject* names) {
    const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(flags));
    if (count == 0) return PyObject_Vectorcall(cast(self)->slow, raw, count, names);
    const std::size_t named = names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
    const Arguments arguments{self, {raw + 1, count - 1 + named}, names};
    // Kept: the communicator may forget it meanwhile.
    const nb::object communicator = nb::borrow(raw[0]);
    try {
        auto* const shortcuts = shortcuts_of(raw[0]);
        if (shortcuts != nullptr)
            if (auto result = shortcuts->make(arguments)) return result->release().ptr();
        return call_slowly(shortcuts, self, arguments, raw, count);
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

PyObject* bound(PyObject* self, PyObject* instance, PyObject*) {
    return instance == nullptr ? Py_NewRef(self) : PyMethod_New(self, instance);
}

int visit(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(cast(self)->slow);
    Py_VISIT(cast(self)->attributes);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

int clear(PyObject* self) {
    Py_CLEAR(cast(self)->slow);
    Py_CLEAR(cast(self)->attributes);
    return 0;
}

void destroy(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Method, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Method, attributes), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef dictionary[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_descr_get, reinterpret_cast<void*>(&bound)},
    {Py_tp_traverse, reinterpret_cast<void*>(&visit)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&destroy)},
    {Py_tp_members, members},
    {Py_tp_getset, dictionary},
    {0, nullptr},
};

PyType_Spec spec{
    .name = "unisono._native.Method",
    .basicsize = sizeof(Method),
    .itemsize = 0,
    .flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

}  // namespace

void method(nb::module_& module) {
    const nb::object type = nb::steal(PyType_FromSpec(&spec));
    if (!type.is_valid()) throw nb::python_error();
    module.def(
        "method",
        [type](nb::handle slow) {
            auto* const raw = reinterpret_cast<PyTypeObject*>(type.ptr());
            const nb::object self = nb::steal(raw->tp_alloc(raw, 0));
            if (!self.is_valid()) throw nb::python_error();
            cast(self.ptr())->vectorcall = &call;
            cast(self.ptr())->slow = slow.inc_ref().ptr();
            return self;
        },
        nb::arg("slow"), nb::sig("def method(slow: typing.Any) -> typing.Any"),
        "A method of a communicator's class that takes shortcuts, and is this function where there are "
        "none.");
}

}  // namespace unisono::bind
