// engine.push: arguments as Python's calling convention has them, because this is called millions of times.

#include <nanobind/stl/string.h>

#include <algorithm>

#include "bind/engine_python.hpp"

namespace nb = nanobind;

namespace unisono::bind {

using engine::Demand;
using engine::Mode;
using engine::Operation;
using engine::Use;

namespace {

constexpr std::size_t few = 8;

/// The variables of one operation.
class Uses {
  public:
    explicit Uses(PyObject* self)
        : self_(self), engine_(nb::inst_ptr<PyEngine>(nb::handle(self))->engine.get()) {}

    void add_all(PyObject* given, Mode mode) {
        if (given == nullptr || given == Py_None) return;
        if (!PyList_CheckExact(given) && !PyTuple_CheckExact(given)) return add_sequence(given, mode);
        const auto count = PySequence_Fast_GET_SIZE(given);
        for (Py_ssize_t i = 0; i < count; ++i) add(PySequence_Fast_GET_ITEM(given, i), mode);
    }

    /// Without those that were given twice.
    std::span<const Use> get() {
        if (count_ > few) join_all();
        return more_.empty() ? std::span<const Use>(few_.data(), count_) : more_;
    }

  private:
    void add_sequence(PyObject* given, Mode mode) {
        static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<PyVariable>().ptr());
        if (Py_TYPE(given) == type)
            raise_config("read, mutate and accumulate are lists of variables, not one: [v]");
        const nb::object items =
            nb::steal(PySequence_Fast(given, "read, mutate and accumulate are lists of variables"));
        if (!items.is_valid()) {
            PyErr_Clear();
            raise_config("read, mutate and accumulate are lists of variables");
        }
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.ptr()); ++i)
            add(PySequence_Fast_GET_ITEM(items.ptr(), i), mode);
    }

    void add(PyObject* given, Mode mode) {
        static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(nb::type<PyVariable>().ptr());
        if (Py_TYPE(given) == type) return add(*nb::inst_ptr<PyVariable>(nb::handle(given)), mode);
        held_.push_back(nb::handle(self_).attr("variable_of")(nb::handle(given)));
        add(*nb::cast<PyVariable*>(held_.back()), mode);
    }

    void add(const PyVariable& given, Mode mode) {
        if (given.engine.get() != engine_) require_ours(*engine_, given);
        if (given.variable->deleted) require_alive(given);
        if (count_ < few) {
            for (std::size_t i = 0; i < count_; ++i)
                if (few_[i].variable == given.variable) {
                    if (few_[i].mode != mode) few_[i].mode = Mode::mutate;
                    return;
                }
            few_[count_++] = {given.variable, mode};
            return;
        }
        if (more_.empty()) more_.assign(few_.begin(), few_.end());
        more_.push_back({given.variable, mode});
        ++count_;
    }

    /// One that reads and accumulates, for example, mutates.
    void join_all() {
        std::ranges::stable_sort(more_, {}, &Use::variable);
        std::size_t kept = 0;
        for (std::size_t i = 1; i < more_.size(); ++i) {
            if (more_[i].variable != more_[kept].variable)
                more_[++kept] = more_[i];
            else if (more_[i].mode != more_[kept].mode)
                more_[kept].mode = Mode::mutate;
        }
        more_.resize(kept + 1);
    }

    PyObject* self_;
    engine::Engine* engine_;
    std::size_t count_ = 0;
    std::array<Use, few> few_;
    std::vector<Use> more_;
    std::vector<nb::object> held_;  // of tagged data
};

struct Given {
    PyObject* function = nullptr;
    PyObject* read = nullptr;
    PyObject* mutate = nullptr;
    PyObject* accumulate = nullptr;
    PyObject* lane = nullptr;
    PyObject* bytes = nullptr;
    PyObject* priority = nullptr;
    PyObject* name = nullptr;
    PyObject* asynchronous = nullptr;
};

struct Keyword {
    const char* name;
    PyObject* Given::* member;
};
constexpr std::array<Keyword, 9> keywords{{{"fn", &Given::function},
                                           {"read", &Given::read},
                                           {"mutate", &Given::mutate},
                                           {"accumulate", &Given::accumulate},
                                           {"lane", &Given::lane},
                                           {"bytes", &Given::bytes},
                                           {"priority", &Given::priority},
                                           {"name", &Given::name},
                                           {"asynchronous", &Given::asynchronous}}};
constexpr Py_ssize_t most_by_position = 4;

/// Interned, so that mostly the addresses are equal.
const std::array<PyObject*, keywords.size()>& interned() {
    static const auto names = [] {
        std::array<PyObject*, keywords.size()> made{};
        for (std::size_t i = 0; i < made.size(); ++i) made[i] = PyUnicode_InternFromString(keywords[i].name);
        return made;
    }();
    return names;
}

void take(Given& given, PyObject* name, PyObject* value) {
    const auto& names = interned();
    for (std::size_t i = 0; i < names.size(); ++i)
        if (names[i] == name || PyUnicode_Compare(names[i], name) == 0) {
            if (given.*keywords[i].member != nullptr)
                raise_config(std::string("push got ") + keywords[i].name + " twice");
            given.*keywords[i].member = value;
            return;
        }
    raise_config("push knows no " + std::string(PyUnicode_AsUTF8(name)) +
                 "; it takes fn, read, mutate, accumulate, lane, bytes, priority and name");
}

Given parse(PyObject* const* values, Py_ssize_t count, PyObject* names) {
    Given given;
    if (count > most_by_position)
        raise_config("push takes fn, read, mutate and accumulate by position, and no more");
    for (Py_ssize_t i = 0; i < count; ++i) given.*keywords[static_cast<std::size_t>(i)].member = values[i];
    if (names != nullptr)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
            take(given, PyTuple_GET_ITEM(names, i), values[count + i]);
    return given;
}

std::int64_t whole(PyObject* given, const char* what) {
    const auto number = PyLong_AsLongLong(given);
    if (number == -1 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        raise_config(std::string(what) + " is a whole number");
    }
    return number;
}

void add_demand(const PyEngine& self, std::vector<Demand>& demands, nb::handle given, PyObject* bytes) {
    PyLane* lane = nullptr;
    if (!nb::try_cast(given, lane) || lane == nullptr)
        raise_config("lane is what engine.lane() made, or a list of such");
    if (lane->engine != self.engine)
        raise_config("lane " + lane->lane->name() +
                     " belongs to another engine; each has its own: engine.lane()");
    std::int64_t amount = 1;
    if (lane->counts_bytes) {
        if (bytes == nullptr)
            raise_config("lane " + lane->lane->name() + " counts bytes: say how many, as bytes=");
        amount = whole(bytes, "bytes");
        if (amount < 0) raise_config("bytes is a whole number from 0 up");
    }
    if (static_cast<std::uint64_t>(amount) > lane->lane->capacity())
        raise_config(std::to_string(amount) + " bytes never fit into lane " + lane->lane->name() +
                     ", which takes " + std::to_string(lane->lane->capacity()) + " at once");
    for (const auto& other : demands)
        if (other.lane == lane->lane) raise_config("lane " + lane->lane->name() + " was given twice");
    demands.push_back({lane->lane, static_cast<std::uint64_t>(amount)});
}

std::vector<Demand> demands_of(const PyEngine& self, const Given& given) {
    std::vector<Demand> demands;
    if (given.lane == nullptr || given.lane == Py_None) {
        if (given.bytes != nullptr && given.bytes != Py_None)
            raise_config("bytes= is for a lane, which is not given");
        return demands;
    }
    if (PyList_Check(given.lane) || PyTuple_Check(given.lane))
        for (const nb::handle each : nb::borrow(given.lane)) add_demand(self, demands, each, given.bytes);
    else
        add_demand(self, demands, given.lane, given.bytes);
    return demands;
}

bool is_true(PyObject* given) {
    const int truth = PyObject_IsTrue(given);
    if (truth < 0) throw nb::python_error();
    return truth == 1;
}

const engine::Body& body_of(const Given& given) {
    static PyTypeObject* const native = reinterpret_cast<PyTypeObject*>(nb::type<PyNative>().ptr());
    if (given.asynchronous != nullptr && is_true(given.asynchronous)) return asynchronous_body();
    if (Py_TYPE(given.function) != native) return function_body();
    return nb::inst_ptr<PyNative>(nb::handle(given.function))->run ? native_body() : nothing_body();
}

void check_name(PyObject* given) {
    if (!PyUnicode_Check(given)) raise_config("name is a string");
    if (PyUnicode_AsUTF8(given) != nullptr) return;
    PyErr_Clear();
    raise_config("name is a string of characters, without halves of surrogate pairs");
}

void check(const PyEngine& self, const Given& given) {
    if (self.engine->closed()) raise_config("this engine is closed: nothing more can be pushed");
    if (given.function == nullptr || PyCallable_Check(given.function) == 0)
        raise_config("push needs a function to run, which takes no arguments; functools.partial binds them");
    if (given.name != nullptr && given.name != Py_None) check_name(given.name);
}

PyObject* push_given(PyObject* object, const Given& given) {
    const auto& self = *nb::inst_ptr<PyEngine>(nb::handle(object));
    check(self, given);
    Uses uses(object);
    uses.add_all(given.read, Mode::read);
    uses.add_all(given.mutate, Mode::mutate);
    uses.add_all(given.accumulate, Mode::accumulate);
    std::vector<Demand> demands;
    if (given.lane != nullptr || given.bytes != nullptr) demands = demands_of(self, given);
    const auto priority = given.priority == nullptr ? 0 : whole(given.priority, "priority");
    if (priority != static_cast<std::int32_t>(priority))
        raise_config("priority is a whole number of 32 bits");
    const auto& body = body_of(given);
    const bool has_title = given.name != nullptr && given.name != Py_None;
    if (auto* const python = self.engine->interpreter(); !python->is_tidy()) python->tidy();
    Operation& operation =
        self.engine->push({.body = &body,
                           .subject = &body == &nothing_body() ? nullptr : Py_NewRef(given.function),
                           .title = has_title ? Py_NewRef(given.name) : nullptr,
                           .uses = uses.get(),
                           .demands = demands,
                           .priority = static_cast<std::int32_t>(priority),
                           .site = self.lines->caller()});
    return handle_of(self, operation);
}

}  // namespace

PyObject* push(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return raising([&] { return push_given(self, parse(values, count, names)); });
}

namespace {

PyObject* push_task(PyObject* self, PyObject* task, PyObject* names, PyObject* const* values) {
    if (!PyTuple_Check(task)) raise_config("push_all takes a list of tuples (fn, read, mutate, accumulate)");
    Given given = parse(&PyTuple_GET_ITEM(task, 0), PyTuple_GET_SIZE(task), nullptr);
    if (names != nullptr)
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
            take(given, PyTuple_GET_ITEM(names, i), values[i]);
    return push_given(self, given);
}

/// Those before a bad one are under way; who pushed them has no handles.
[[noreturn]] void raise_for_task(nb::python_error& error, Py_ssize_t number, Py_ssize_t size) {
    const nb::object words = nb::module_::import_("unisono.engine.words");
    raise(words.attr("of_task")(error.value(), number, size));
}

}  // namespace

PyObject* push_all(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) {
    return raising([&] {
        if (count != 1 || PySequence_Check(values[0]) == 0)
            raise_config("push_all takes one list, of tuples (fn, read, mutate, accumulate)");
        const nb::object tasks = nb::steal(PySequence_Fast(values[0], "push_all takes a list"));
        if (!tasks.is_valid()) throw nb::python_error();
        const nb::object handles = nb::steal(PyList_New(0));
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tasks.ptr()); ++i) {
            nb::object handle;
            try {
                handle = nb::steal(
                    push_task(self, PySequence_Fast_GET_ITEM(tasks.ptr(), i), names, values + count));
            } catch (nb::python_error& error) {
                raise_for_task(error, i, PySequence_Fast_GET_SIZE(tasks.ptr()));
            }
            if (PyList_Append(handles.ptr(), handle.ptr()) != 0) throw nb::python_error();
        }
        return nb::object(handles).release().ptr();
    });
}

}  // namespace unisono::bind
