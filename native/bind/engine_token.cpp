#include "bind/engine_token.hpp"

#include "bind/bind.hpp"
#include "bind/held.hpp"
#include "bind/interpreter.hpp"

namespace nb = nanobind;

namespace unisono::bind {

using engine::Failure;
using engine::FailurePtr;

namespace {

FailurePtr failure_of(engine::Engine& engine, const engine::Operation& operation, const nb::object& error,
                      bool cancelled) {
    auto kept = cancelled ? nullptr : python_of(engine).keep(operation.serial, error);
    return std::make_shared<Failure>(Failure{operation.serial, nullptr, std::move(kept), cancelled,
                                             name_of(operation), operation.site, true});
}

/// A token may be dropped while an exception is on its way, which is not ours.
class WithoutError {
  public:
    WithoutError() { PyErr_Fetch(&kind_, &value_, &trace_); }
    WithoutError(const WithoutError&) = delete;
    WithoutError& operator=(const WithoutError&) = delete;
    ~WithoutError() { PyErr_Restore(kind_, value_, trace_); }

  private:
    PyObject *kind_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

FailurePtr of_drop(engine::Engine& engine, const engine::Operation& operation) noexcept {
    try {
        const nb::object error = nb::module_::import_("unisono.engine.words").attr("dropped")();
        return failure_of(engine, operation, error, false);
    } catch (const std::exception& error) {  // Python has no words any more
        auto thrown = std::make_exception_ptr(std::runtime_error(error.what()));
        return std::make_shared<Failure>(Failure{operation.serial, std::move(thrown), nullptr, false,
                                                 operation.body->name(), operation.site});
    }
}

}  // namespace

Token::~Token() {
    if (!called_.exchange(true) && engine_->origin().is_here() && !interpreter_ends()) {
        const WithoutError aside;
        engine_->finish(*operation_, of_drop(*engine_, *operation_));
    }
    engine_->forget(*operation_);
}

/// True for the first who calls it, in the process of the engine.
bool Token::is_first() {
    engine_->origin().require("the engine of this operation");
    return !called_.exchange(true);
}

bool Token::complete(nb::handle result) {
    if (!is_first()) return false;
    operation_->result = result.inc_ref().ptr();
    engine_->finish(*operation_, nullptr);
    return true;
}

/// Only the first one's error is kept: there is room for one of each operation.
bool Token::fail(const nb::object& error, bool cancelled) {
    if (!is_first()) return false;
    engine_->finish(*operation_, failure_of(*engine_, *operation_, error, cancelled));
    return true;
}

bool Token::complete_with(Ticket& ticket, nb::handle outcome) {
    if (!is_first()) return false;
    operation_->result = outcome.inc_ref().ptr();
    operation_->result_is_call = true;
    engine_->remember(*operation_);
    ticket.then([engine = engine_, operation = operation_](bool succeeded) {
        if (succeeded)
            engine->finish(*operation, nullptr);
        else
            engine->resume(*operation);
        engine->forget(*operation);
    });
    return true;
}

void tokens(nb::module_& module) {
    nb::class_<Token>(module, "Token", "Completes an operation, from any thread, once.")
        .def("complete", &Token::complete, nb::arg("result").none(), "False if it was completed before.")
        .def(
            "complete_with",
            [](Token& self, const Held<Ticket>& ticket, nb::handle outcome) {
                return self.complete_with(*ticket.value, outcome);
            },
            nb::arg("ticket"), nb::arg("outcome"), "When a call ends; who asks for the result calls this.")
        .def("fail", &Token::fail, nb::arg("error"), nb::arg("cancelled") = false,
             "The same, with an exception.");
    module.def(
        "report_unraisable",
        [](nb::handle error, nb::handle about) {
            PyErr_SetObject(error.type().ptr(), error.ptr());
            PyErr_WriteUnraisable(about.ptr());
        },
        nb::arg("error"), nb::arg("about"), "By sys.unraisablehook, which Python code cannot call.");
}

}  // namespace unisono::bind
