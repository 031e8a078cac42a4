#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "base/error.hpp"
#include "bind/bind.hpp"
#include "bind/held.hpp"
#include "bind/interpreter.hpp"
#include "execute/queue.hpp"
#include "execute/watch.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using HeldTicket = Held<Ticket>;

/// Runs the call here, if nobody does yet. An interruption is for this thread alone; who waits later hears
/// that the call has ended.
void help(const Ticket& ticket, bool in_background) {
    std::exception_ptr interruption;
    const auto told = [&](std::exception_ptr failure) {
        try {
            std::rethrow_exception(failure);
        } catch (const nb::python_error&) {
            interruption = failure;
            PeerLost ended("this rank was interrupted in a call");
            ended.second_hand = true;
            return std::make_exception_ptr(ended);
        } catch (...) {
            return failure;
        }
    };
    {
        const WithoutInterpreter elsewhere;
        ticket.help(told, in_background);
    }
    if (interruption) std::rethrow_exception(interruption);
}

/// False if the call was not through in time.
bool wait(const HeldTicket& ticket, std::optional<double> seconds, bool in_background) {
    if (ticket.value->done()) return true;
    const auto until = seconds ? after(*seconds) : Clock::time_point::max();
    if (!seconds) help(*ticket.value, in_background);
    const WithoutInterpreter elsewhere;
    return ticket.value->wait([&] {
        check_signals();
        return Clock::now() < until;
    });
}

}  // namespace

void calls(nb::module_& module) {
    nb::class_<HeldTicket>(module, "Ticket", "A call that was started.")
        .def(
            "done", [](const HeldTicket& ticket) { return ticket.value->done(); }, "Is it through?")
        .def("wait", &wait, nb::arg("seconds").none(), nb::arg("in_background") = false,
             "Waits for its end; says whether it came in time. Who has the time runs it meanwhile; in the "
             "background "
             "if another thread computes.")
        .def(
            "notify", [](const HeldTicket& ticket, int event) { ticket.value->notify(duplicate(event)); },
            nb::arg("event"), "Writes to an eventfd when it is through.")
        .def(
            "rethrow", [](const HeldTicket& ticket) { ticket.value->rethrow(); },
            "Raises what went wrong, if anything did.");
}

}  // namespace unisono::bind
