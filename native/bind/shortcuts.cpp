#include "bind/shortcuts.hpp"

#include <nanobind/stl/unordered_map.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "bind/bind.hpp"
#include "bind/interpreter.hpp"
#include "bind/spot.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

constexpr std::size_t most_known = 1024;
constexpr std::size_t most_alike = 16;  // in the size of their arrays; deadlines, for one, may be ever new
constexpr std::size_t none = ~std::size_t{0};

/// What an array has to have in common with an earlier one.
struct Form {
    nb::object dtype;
    std::size_t item_bytes;
    std::vector<Py_ssize_t> shape;
    bool is_written;

    static Form of(const View& view) {
        const auto dtype = nb::borrow(view.dtype);
        return {dtype,
                nb::cast<std::size_t>(dtype.attr("itemsize")),
                {view.shape.begin(), view.shape.end()},
                false};
    }
    bool fits(const View& view) const {
        return view.dtype == dtype.ptr() && std::ranges::equal(shape, view.shape) &&
               (view.is_writable || !is_written);
    }
    Array array(const View& view) const { return {view.data, view.elements * item_bytes}; }
};

/// Equal to itself for ever, and to nothing else that matters.
bool is_constant(PyObject* value) {
    return value == Py_None || PyBool_Check(value) || PyUnicode_CheckExact(value) ||
           PyLong_CheckExact(value) || PyFloat_CheckExact(value);
}

bool is_equal(PyObject* one, PyObject* other) {
    return one == other ||
           (Py_TYPE(one) == Py_TYPE(other) && PyObject_RichCompareBool(one, other, Py_EQ) == 1);
}

std::size_t key_of(const Arguments& arguments, const Views& views) {
    std::size_t key = std::hash<const void*>()(arguments.method);
    const auto mix = [&](std::size_t more) { key = key * 0x9E3779B97F4A7C15 + more; };
    mix(arguments.values.size());
    mix(arguments.named());
    for (const auto& view : views.seen()) mix(view.elements);
    return key;
}

bool overlap(const Array& one, const Array& other) {
    return one.address < other.address + other.size && other.address < one.address + one.size;
}

bool is_same(const Array& one, const Array& other) {
    return one.address == other.address && one.size == other.size;
}

/// Which of the arrays it is; `none` if it has no bytes, nothing if it is not among them.
std::optional<std::size_t> which(const Views& views, std::span<const Form> forms, const Array& array,
                                 bool last) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < forms.size(); ++i)
        if (is_same(forms[i].array(views.seen()[i]), array) && (last || !found)) found = i;
    if (!found && array.size == 0) return none;
    return found;
}

}  // namespace

struct Shortcuts::Known {
    nb::object method;
    std::vector<nb::object> names;
    std::vector<nb::object> constants;  // by argument; nothing where an array stands
    std::vector<Form> forms;            // of the arrays
    std::size_t source;                 // array
    std::size_t target;                 // array
    std::size_t result;                 // argument
    bool in_place;
    Recipe recipe;
    std::uint64_t* uses;  // of this kind of call, kept by the table of all kinds
    // The last line that made this call.
    Spot spot;
    std::uint32_t site = 0;

    bool fits(const Arguments& arguments, const Views& views) const {
        if (arguments.method != method.ptr() || arguments.values.size() != constants.size() ||
            arguments.named() != names.size() || views.seen().size() != forms.size())
            return false;
        for (std::size_t i = 0; i < names.size(); ++i)
            if (PyTuple_GET_ITEM(arguments.names, static_cast<Py_ssize_t>(i)) != names[i].ptr()) return false;
        for (std::size_t i = 0; i < constants.size(); ++i)
            if (constants[i].is_valid() && !is_equal(constants[i].ptr(), arguments.values[i])) return false;
        for (std::size_t i = 0; i < forms.size(); ++i) {
            const auto& view = views.seen()[i];
            if (constants[view.argument].is_valid() || !forms[i].fits(view)) return false;
        }
        return in_place == (source == target || is_same(in(views), out(views))) &&
               (in_place || !overlap(in(views), out(views)));
    }
    Array in(const Views& views) const { return array(views, source); }
    Array out(const Views& views) const { return array(views, target); }
    Array array(const Views& views, std::size_t number) const {
        return number == none ? Array{} : forms[number].array(views.seen()[number]);
    }
};

std::shared_ptr<Shortcuts::Known> Shortcuts::find(const Arguments& arguments, Views& views) const {
    if (!is_open() || known_.empty() || !views.open(arguments)) return nullptr;
    const auto [first, last] = known_.equal_range(key_of(arguments, views));
    for (auto each = first; each != last; ++each)
        if (each->second->fits(arguments, views)) return each->second;
    return nullptr;
}

std::optional<nb::object> Shortcuts::make(const Arguments& arguments) {
    Views views;
    const auto known = find(arguments, views);
    if (!known) return {};
    const auto ready = request(*known, views);
    const auto epoch = epoch_;
    std::exception_ptr failure;
    if (!is_open() || !run(known->recipe.plan, ready, failure)) return {};
    ++*known->uses;
    if (failure) fail_(nb::borrow(arguments.method), Held<Ticket>{Ticket::failed(std::move(failure))}, epoch);
    return result_of(*known, arguments);
}

/// False if others are under way.
bool Shortcuts::run(const AnyPlan& plan, const Request& request, std::exception_ptr& failure) const {
    const auto turn = core_.calls->try_begin();
    if (!turn) return false;
    try {
        PythonThread thread;
        std::visit([&](const auto& each) { core_.executor->run(*each, request, thread); }, plan);
    } catch (...) {
        failure = std::current_exception();
    }
    return true;
}

std::optional<Shortcuts::Started> Shortcuts::start(const Arguments& arguments) {
    Views views;
    const auto known = find(arguments, views);
    if (!known) return {};
    auto ready = request(*known, views);
    if (!is_open()) return {};
    ++*known->uses;
    auto ticket = std::visit(
        [&](const auto& plan) {
            return core_.calls->start([executor = core_.executor, plan, ready,
                                       starter = std::this_thread::get_id()](bool in_background) mutable {
                AnyThread thread(starter);
                ready.in_background = in_background;
                executor->run(*plan, ready, thread);
            });
        },
        known->recipe.plan);
    return Started{std::move(ticket), result_of(*known, arguments)};
}

nb::object Shortcuts::result_of(const Known& known, const Arguments& arguments) {
    return nb::borrow(known.result == none ? Py_None : arguments.values[known.result]);
}

/// Runs Python now and then, to number a line: look again whether it is open.
Request Shortcuts::request(Known& known, const Views& views) {
    const auto now = quick_now();
    Request ready{known.in(views), known.out(views), after(known.recipe.seconds, now), known.recipe.label,
                  now};
    ready.label.site = line(known);
    return ready;
}

/// The line of the program that makes the call, which is mostly that of the last time.
std::uint32_t Shortcuts::line(Known& known) {
    if (known.spot.code != nullptr && spot_of_thread() == known.spot) return known.site;
    auto* frame = PyThreadState_GetFrame(PyThreadState_Get());
    while (frame != nullptr) {
        const nb::object held = nb::steal(reinterpret_cast<PyObject*>(frame));
        const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
        const Spot spot{code.ptr(), PyFrame_GetLasti(frame)};
        if (spot == known.spot) return known.site;
        if (!ours_.contains(code.ptr())) {
            // The sites keep the code objects of lines, and our modules their own: no other one gets the
            // address.
            if (const auto site = nb::cast<std::uint32_t>(sites_.attr("at")(code, spot.instruction))) {
                known.spot = spot;
                return known.site = site;
            }
            if (ours_.size() < most_known) ours_.insert(code.ptr());
        }
        frame = PyFrame_GetBack(frame);
    }
    return 0;
}

void Shortcuts::learn(const Arguments& arguments, PyObject* result) {
    const auto lesson = std::exchange(lesson_, {});
    if (!lesson || lesson->by != std::this_thread::get_id()) return;
    Views views;
    if (!views.open(arguments)) return;
    std::vector<Form> forms;
    for (const auto& view : views.seen()) forms.push_back(Form::of(view));
    const auto source = which(views, forms, lesson->in, false),
               target = which(views, forms, lesson->out, true);
    if (!source || !target) return;
    if (*target != none) forms[*target].is_written = true;
    auto known = std::make_shared<Known>();
    known->method = nb::borrow(arguments.method);
    for (std::size_t i = 0; i < arguments.named(); ++i)
        known->names.push_back(nb::borrow(PyTuple_GET_ITEM(arguments.names, static_cast<Py_ssize_t>(i))));
    known->result = none;
    for (std::size_t i = 0; i < arguments.values.size(); ++i) {
        PyObject* const value = arguments.values[i];
        if (!is_array(value) && !is_constant(value)) return;
        known->constants.push_back(is_array(value) ? nb::object() : nb::borrow(value));
        if (is_array(value) && value == result) known->result = i;
    }
    if (known->result == none && result != Py_None) return;
    known->forms = std::move(forms);
    known->source = *source;
    known->target = *target;
    known->in_place = *source == *target || is_same(lesson->in, lesson->out);
    known->recipe = lesson->recipe;
    known->uses = &uses_[known->recipe.label.kind];
    const auto key = key_of(arguments, views);
    if (known_.count(key) >= most_alike) return;
    if (known_.size() >= most_known) known_.clear();
    known_.emplace(key, std::move(known));
}

namespace {

/// Arguments that Python has collected, as a method gets them.
class Collected {
  public:
    Collected(nb::handle method, const nb::args& arguments, const nb::kwargs& options)
        : method_(method),
          names_(nb::steal<nb::tuple>(PyTuple_New(static_cast<Py_ssize_t>(options.size())))) {
        for (const auto& value : arguments) values_.push_back(value.ptr());
        Py_ssize_t at = 0;
        for (const auto& [name, value] : options) {
            PyTuple_SET_ITEM(names_.ptr(), at++, Py_NewRef(name.ptr()));
            values_.push_back(value.ptr());
        }
    }
    Arguments arguments() const { return {method_.ptr(), values_, names_.ptr()}; }

  private:
    nb::handle method_;
    nb::tuple names_;
    std::vector<PyObject*> values_;
};

template <class Plan>
void bind_note(nb::class_<Shortcuts>& type) {
    type.def(
        "note",
        [](Shortcuts& self, const Held<const Plan>& plan, std::uintptr_t in, std::size_t in_bytes,
           std::uintptr_t out, std::size_t out_bytes, double deadline, std::uint32_t kind,
           std::uint64_t bytes) {
            self.note({{plan.value, deadline, {kind, 0, bytes}},
                       {reinterpret_cast<std::byte*>(in), in_bytes},
                       {reinterpret_cast<std::byte*>(out), out_bytes},
                       std::this_thread::get_id()});
        },
        nb::arg("plan"), nb::arg("source"), nb::arg("source_bytes"), nb::arg("target"),
        nb::arg("target_bytes"), nb::arg("deadline"), nb::arg("kind"), nb::arg("bytes"),
        nb::sig(std::is_same_v<Plan, LinkPlan>
                    ? "def note(self, plan: LinkPlan, source: int, source_bytes: int, target: int, "
                      "target_bytes: int, deadline: float, kind: int, bytes: int) -> None"
                    : "def note(self, plan: SharedPlan, source: int, source_bytes: int, target: int, "
                      "target_bytes: int, deadline: float, kind: int, bytes: int) -> None"),
        "What the call was made of that the method under way has made.");
}

}  // namespace

void shortcuts(nb::module_& module) {
    nb::class_<Shortcuts> type(module, "Shortcuts", "Calls that are made again without deciding anything.");
    bind_note<LinkPlan>(type);
    bind_note<SharedPlan>(type);
    type.def(nb::init<const Core&, nb::object, nb::object>(), nb::arg("executor"), nb::arg("sites"),
             nb::arg("fail"))
        .def(
            "start",
            [](Shortcuts& self, nb::handle method, const nb::args& arguments, const nb::kwargs& options) {
                const Collected collected(method, arguments, options);
                auto started = self.start(collected.arguments());
                if (!started) return nb::object(nb::none());
                return nb::object(nb::make_tuple(Held<Ticket>{std::move(started->ticket)}, started->result));
            },
            nb::sig("def start(self, method: object, /, *arguments: object, **options: object) "
                    "-> tuple[Ticket, object] | None"),
            "Starts the call, if it is known; its result is that, later.")
        .def(
            "learn",
            [](Shortcuts& self, nb::handle method, nb::handle result, const nb::args& arguments,
               const nb::kwargs& options) {
                const Collected collected(method, arguments, options);
                self.learn(collected.arguments(), result.ptr());
            },
            nb::sig(
                "def learn(self, method: object, result: object, /, *arguments: object, **options: object) "
                "-> None"),
            "The call that was noted last has this result.")
        .def("hold", &Shortcuts::hold, "Until it is released, all calls are for Python to decide.")
        .def("release", &Shortcuts::release)
        .def("close", &Shortcuts::close, "Makes no more calls, and lets go of the executor.")
        .def("forget", &Shortcuts::forget, "All calls have to be learnt anew.")
        .def("set_epoch", &Shortcuts::set_epoch, nb::arg("epoch"), "Of the calls from here on.")
        .def("uses", &Shortcuts::uses, "How often each kind of call was made here.");
}

}  // namespace unisono::bind
