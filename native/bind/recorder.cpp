#include "observe/recorder.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bind/bind.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using Peer = std::tuple<int, bool, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
using Row = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t,
                       std::uint64_t, std::uint64_t, int, std::vector<Peer>>;

Row row(const CallRecord& call) {
    std::vector<Peer> peers;
    for (const auto& [peer, expected, arrived, waited, longest_began, longest] : call.peers)
        peers.emplace_back(peer, expected, arrived, waited, longest_began, longest);
    return {call.number,      call.sequence, call.label.kind, call.label.site,
            call.label.bytes, call.began,    call.ended,      static_cast<int>(call.outcome),
            std::move(peers)};
}

}  // namespace

void recorder(nb::module_& module) {
    nb::class_<Recorder>(module, "Recorder", "The last calls of a rank, readable at any time.")
        .def_ro_static("no_sequence", &Recorder::no_sequence, "The sequence of a call of two ranks only.")
        .def(
            "calls_since",
            [](const Recorder& self, std::uint64_t number) {
                std::vector<Row> rows;
                for (const auto& call : self.calls_since(number)) rows.push_back(row(call));
                return rows;
            },
            nb::arg("number"),
            "The kept calls from a number on, the oldest first: number, sequence, kind, site, bytes, began, "
            "ended, outcome (0 running, 1 done, 2 failed), and for every peer its rank, whether frames come "
            "from it, when its first frame "
            "arrived, how long it was waited for, and when the longest of these waits began and how long it "
            "was. Times are nanoseconds of the monotonic clock.")
        .def(
            "tally",
            [](const Recorder& self) {
                const auto [of_all, sent, received, since] = self.tally();
                return std::tuple(of_all, sent, received, since);
            },
            "How many calls of all ranks have begun, and how many messages of calls of two ranks have gone "
            "to, "
            "and come from, each rank; and the number of the first call that is counted.")
        .def("waited", &Recorder::waited, "Nanoseconds that all calls have waited for each rank.");
}

}  // namespace unisono::bind
