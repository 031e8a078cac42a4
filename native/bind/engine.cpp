#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <limits>

#include "base/dtype.hpp"
#include "bind/bind.hpp"
#include "bind/engine_python.hpp"
#include "bind/engine_token.hpp"
#include "bind/interpreter.hpp"
#include "reduce/reduce.hpp"

namespace nb = nanobind;

namespace unisono::bind {

using engine::Engine;
using engine::Mode;
using engine::Use;

namespace {

PyMethodDef methods[] = {
    {"push", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&push)),
     METH_FASTCALL | METH_KEYWORDS,
     "push($self, fn, read=(), mutate=(), accumulate=(), *, lane=None, bytes=None, priority=0, "
     "name=None)\n--\n\n"
     "Run fn when the variables allow it, and come back at once."},
    {"push_all", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&push_all)),
     METH_FASTCALL | METH_KEYWORDS,
     "push_all($self, tasks, *, lane=None, bytes=None, priority=0, name=None)\n--\n\n"
     "Push all of a list of tuples (fn, read, mutate, accumulate), in its order."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};

void make(PyEngine* self, int threads, bool logs, std::string ours, nb::handle errors) {
    auto python = std::make_unique<Python>(errors);
    auto* const disposer = python.get();
    Engine::Options options{
        .threads = threads,
        .logs = logs,
        .interpreter = std::move(python),
        .dispose = [disposer](Engine& engine, engine::Operation& each) { disposer->dispose(engine, each); },
        .name_of = [](const engine::Operation& each) { return name_anywhere(each); }};
    new (self) PyEngine{Engine::make(std::move(options)), std::make_shared<Lines>(std::move(ours))};
}

std::vector<Use> uses(const PyEngine& self, const std::vector<PyVariable*>& variables, Mode mode) {
    std::vector<Use> result;
    for (auto* const each : variables) {
        require_ours(*self.engine, *each);
        result.push_back({each->variable, mode});
    }
    return result;
}

nb::object mark(const PyEngine& self, const std::vector<PyVariable*>& variables) {
    auto& made = self.engine->mark(uses(self, variables, Mode::await), self.lines->caller());
    return nb::steal(handle_of(self, made));
}

void heal(const PyEngine& self, const std::vector<PyVariable*>& variables) {
    for (auto* const each : variables) require_alive(*each);
    self.engine->forget(self.engine->heal(uses(self, variables, Mode::mutate), self.lines->caller()));
}

PyLane make_lane(const PyEngine& self, std::string name, std::uint64_t capacity, bool counts_bytes) {
    self.engine->origin().require("this engine");
    return {self.engine, std::make_shared<engine::Lane>(std::move(name), capacity), counts_bytes};
}

std::uint64_t outstanding(const PyEngine& self) {
    self.engine->origin().require("this engine");
    return self.engine->outstanding();
}

void delete_variable(const PyVariable& self) {
    self.engine->origin().require("the engine of this variable");
    self.variable->deleted = true;
}

bool wait_until_idle(const PyEngine& self, std::optional<double> seconds) {
    const auto until = seconds ? after(*seconds) : Clock::time_point::max();
    try {
        const WithoutInterpreter elsewhere;
        return self.engine->wait_until_idle([&] {
            check_signals();
            return Clock::now() < until;
        });
    } catch (const engine::NeverEnds& error) {
        raise_config("operation " + name_of(*Engine::current_of_all()) + " waits for all: " + error.what());
    }
}

nb::object take_failure(const PyEngine& self) {
    const auto failure = self.engine->take_failure();
    return failure ? error_of(*failure, *self.lines, python_of(*self.engine).errors()) : nb::none();
}

bool close(const PyEngine& self, double seconds) {
    if (!self.engine->origin().is_here()) return true;
    const auto until = after(seconds);
    bool gone = false;
    {
        const WithoutInterpreter elsewhere;
        gone = self.engine->close(until);
    }
    self.engine->interpreter()->tidy();
    return gone;
}

nb::list touches(const std::vector<engine::Record::Touch>& given) {
    nb::list result;
    for (const auto& each : given)
        result.append(nb::make_tuple(each.variable, each.name, static_cast<int>(each.mode)));
    return result;
}

nb::list live(const PyEngine& self) {
    nb::list result;
    for (const auto& each : self.engine->live())
        result.append(nb::make_tuple(each.serial, each.name, self.lines->name(each.site),
                                     touches(each.touches),
                                     each.is_running ? 2
                                     : each.may_run  ? 1
                                                     : 0));
    return result;
}

nb::list holds(const std::vector<engine::Demand>& given) {
    nb::list result;
    for (const auto& [lane, amount] : given)
        result.append(nb::make_tuple(reinterpret_cast<std::uintptr_t>(lane.get()), amount, lane->capacity()));
    return result;
}

/// To make an object may collect garbage, which may run anything: so nothing is locked.
nb::list log(const PyEngine& self) {
    nb::list result;
    for (const auto* const each : self.engine->logged())
        result.append(nb::make_tuple(each->serial, each->name, self.lines->name(each->site),
                                     touches(each->touches), each->pushed, each->ready.load(),
                                     each->begun.load(), each->ended.load(), each->thread.load(),
                                     each->failed.load(), holds(each->demands)));
    return result;
}

PyNative copy(std::uintptr_t from, std::uintptr_t to, std::size_t bytes, nb::object keeps) {
    return {"copy",
            [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes); },
            std::move(keeps)};
}

PyNative reduce(int op, int dtype, const std::vector<std::uintptr_t>& sources, std::uintptr_t to,
                std::size_t elements, nb::object keeps) {
    std::vector<const std::byte*> from;
    for (const auto each : sources) from.push_back(reinterpret_cast<const std::byte*>(each));
    return {"reduce",
            [=] {
                combine_many(static_cast<Op>(op), static_cast<Dtype>(dtype), reinterpret_cast<std::byte*>(to),
                             from, elements);
            },
            std::move(keeps)};
}

void natives(nb::module_& module) {
    nb::class_<PyNative>(module, "Native", "Something to push that runs without the interpreter.")
        .def_ro("name", &PyNative::name)
        .def(
            "__call__",
            [](const PyNative& self) {
                if (self.run) self.run();
            },
            nb::call_guard<nb::gil_scoped_release>(), "Runs it here and now.");
    module.def("native_nothing", [] { return PyNative{"nothing", {}, nb::none()}; });
    module.def("native_copy", &copy, nb::arg("source"), nb::arg("target"), nb::arg("bytes"),
               nb::arg("keeps"));
    module.def("native_reduce", &reduce, nb::arg("op"), nb::arg("dtype"), nb::arg("sources"),
               nb::arg("target"), nb::arg("elements"), nb::arg("keeps"));
}

void parts(nb::module_& module) {
    nb::class_<PyVariable>(module, "Variable", nb::is_weak_referenceable(),
                           "Something that operations read and write.")
        .def_prop_ro("name", [](const PyVariable& self) { return self.variable->name(); })
        .def_prop_ro("number", [](const PyVariable& self) { return self.variable->number(); })
        .def_prop_ro("is_named", [](const PyVariable& self) { return self.variable->is_named(); })
        .def_prop_ro("deleted", [](const PyVariable& self) { return self.variable->deleted.load(); })
        .def("delete", &delete_variable, "Nothing more can be pushed that uses it; what was pushed runs.")
        .def("__repr__", [](const PyVariable& self) { return "<Variable " + self.variable->name() + ">"; });
    nb::class_<PyLane>(module, "Lane", "A resource that takes so many operations, or bytes of them, at once.")
        .def_prop_ro("name", [](const PyLane& self) { return self.lane->name(); })
        .def_prop_ro("capacity", [](const PyLane& self) { return self.lane->capacity(); })
        .def_ro("counts_bytes", &PyLane::counts_bytes)
        .def("__repr__", [](const PyLane& self) { return "<Lane " + self.lane->name() + ">"; });
}

}  // namespace

PyEngine::~PyEngine() {
    if (!engine || !engine->origin().is_here()) return;
    engine->abandon();
    engine->stop();
}

void engine(nb::module_& module) {
    parts(module);
    natives(module);
    tokens(module);
    make_handle_type(module);
    nb::class_<PyEngine>(module, "EngineCore", nb::is_weak_referenceable(), nb::type_slots(slots),
                         "Queues of variables, and threads that run operations.")
        .def("__init__", &make, nb::arg("threads"), nb::arg("logs"), nb::arg("ours"), nb::arg("errors"))
        .def(
            "make_variable",
            [](const PyEngine& self, std::string name) {
                auto& made = self.engine->variable(std::move(name));
                return new PyVariable(self.engine, made);
            },
            nb::arg("name"), nb::rv_policy::take_ownership)
        .def("make_lane", &make_lane, nb::arg("name"), nb::arg("capacity"), nb::arg("counts_bytes"))
        .def("mark", &mark, nb::arg("variables"),
             nb::sig("def mark(self, variables: list[Variable]) -> Operation"),
             "An operation that is through when all that was pushed on these is.")
        .def("heal", &heal, nb::arg("variables"),
             "After what was pushed on them so far, these have not failed.")
        .def("ends", &ends, nb::arg("operation"), nb::arg("seconds").none(),
             "Waits for an operation; False if that took longer.")
        .def("wait_until_idle", &wait_until_idle, nb::arg("seconds").none(), "False if that took longer.")
        .def("take_failure", &take_failure, nb::sig("def take_failure(self) -> BaseException | None"),
             "What failed first and was not taken yet, or None.")
        .def(
            "inside", [](const PyEngine& self) { return self.engine->current() != nullptr; },
            "Does this thread run an operation?")
        .def(
            "abandon", [](const PyEngine& self) { self.engine->abandon(); },
            "What has not begun is cancelled.")
        .def("shut", &close, nb::arg("seconds"), "The threads end; says whether they have in that time.")
        .def_prop_ro(
            "is_here", [](const PyEngine& self) { return self.engine->origin().is_here(); },
            "Is this the process that made it?")
        .def(
            "require_here", [](const PyEngine& self) { self.engine->origin().require("this engine"); },
            "Raises in a forked child.")
        .def_prop_ro("closed", [](const PyEngine& self) { return self.engine->closed(); })
        .def_prop_ro("outstanding", &outstanding)
        .def("line", [](const PyEngine& self) { return self.lines->name(self.lines->caller()); })
        .def("live", &live,
             "Of each operation under way: serial, name, line, touches, 0 waits 1 may run 2 runs.")
        .def("log", &log,
             "Of each operation: serial, name, line, touches, when it was pushed, could run, began and ended "
             "in nanoseconds, its thread, whether it failed, and lanes: number, amount, capacity.");
}

}  // namespace unisono::bind
