#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "bind/bind.hpp"
#include "bind/held.hpp"
#include "bind/interpreter.hpp"
#include "execute/queue.hpp"
#include "execute/watch.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using HeldTicket = Held<Ticket>;

/// False if the call was not through in time.
bool wait(const HeldTicket& ticket, std::optional<double> seconds) {
    if (ticket.value->done()) return true;
    const auto until = seconds ? after(*seconds) : Clock::time_point::max();
    const WithoutInterpreter elsewhere;
    if (!seconds) ticket.value->help();
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
        .def("wait", &wait, nb::arg("seconds").none(), "Waits for its end; says whether it came in time.")
        .def(
            "notify", [](const HeldTicket& ticket, int event) { ticket.value->notify(duplicate(event)); },
            nb::arg("event"), "Writes to an eventfd when it is through.")
        .def(
            "rethrow", [](const HeldTicket& ticket) { ticket.value->rethrow(); },
            "Raises what went wrong, if anything did.");
}

}  // namespace unisono::bind
