#include "execute/executor.hpp"

#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "bind/bind.hpp"
#include "transport/shm/ring_link.hpp"
#include "transport/tcp/tcp_link.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using Column = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const std::int32_t, nb::shape<-1, 11>, nb::c_contig, nb::device::cpu>;
using Sizes = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Descriptors = std::vector<std::pair<int, int>>;  // peer, descriptor

std::vector<std::int32_t> copied(const Column& column) {
    return {column.data(), column.data() + column.size()};
}

std::vector<Instruction> instructions(const Rows& rows) {
    std::vector<Instruction> result(rows.shape(0));
    std::memcpy(result.data(), rows.data(), result.size() * sizeof(Instruction));
    return result;
}

Fd duplicate(int descriptor) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw_errno("cannot duplicate a descriptor");
    return Fd(copy);
}

std::vector<std::unique_ptr<Link>> links(int rank, int size, const std::shared_ptr<Inbox>& inbox,
                                         const Descriptors& inboxes, const Descriptors& sockets) {
    std::vector<std::unique_ptr<Link>> result(static_cast<std::size_t>(size));
    for (const auto& [peer, descriptor] : inboxes) {
        auto theirs = std::make_shared<Inbox>(Inbox::open(duplicate(descriptor)));
        result.at(static_cast<std::size_t>(peer)) = std::make_unique<RingLink>(inbox, rank, theirs, peer);
    }
    for (const auto& [peer, descriptor] : sockets)
        result.at(static_cast<std::size_t>(peer)) = std::make_unique<TcpLink>(Fd(descriptor));
    return result;
}

void check_signals() {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void run(Executor& executor, const Program& program, std::uintptr_t in, std::uintptr_t out,
         const Sizes& sizes, const Sizes& in_offsets, const Sizes& out_offsets, int dtype, int op,
         std::uint64_t fingerprint, double deadline, bool pairwise, std::uint32_t kind, std::uint32_t site,
         std::uint64_t bytes) {
    const auto blocks = static_cast<std::size_t>(program.blocks());
    if (sizes.size() != blocks || in_offsets.size() != blocks || out_offsets.size() != blocks)
        throw std::invalid_argument("sizes and offsets do not fit the program's blocks");
    const auto budget = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(deadline));
    const Call call{reinterpret_cast<const std::byte*>(in),
                    reinterpret_cast<std::byte*>(out),
                    {sizes.data(), blocks},
                    {in_offsets.data(), blocks},
                    {out_offsets.data(), blocks},
                    static_cast<Dtype>(dtype),
                    static_cast<Op>(op),
                    fingerprint,
                    pairwise,
                    Clock::now() + budget,
                    {kind, site, bytes}};
    const nb::gil_scoped_release without_gil;
    executor.run(program, call, check_signals);
}

}  // namespace

void executor(nb::module_& module) {
    nb::class_<Inbox>(module, "Inbox", "Shared memory that the ranks of a host write to for one of them.")
        .def(
            "__init__",
            [](Inbox* self, int ranks, std::size_t ring_bytes) {
                new (self) Inbox(Inbox::create(ranks, ring_bytes));
            },
            nb::arg("ranks"), nb::arg("ring_bytes"))
        .def("descriptor", &Inbox::descriptor, "What a peer needs in order to map it.");

    nb::class_<Program>(module, "Program", "A lowered program of one rank.")
        .def(
            "__init__",
            [](Program* self, int rank, int ranks, int blocks, const Column& slots, const Rows& rows,
               const Column& waits_for, const Column& waits_from) {
                new (self) Program(rank, ranks, blocks, copied(slots), instructions(rows), copied(waits_for),
                                   copied(waits_from));
            },
            nb::arg("rank"), nb::arg("ranks"), nb::arg("blocks"), nb::arg("slots"), nb::arg("instructions"),
            nb::arg("waits_for"), nb::arg("waits_from"));

    nb::class_<Executor>(module, "Executor", "Runs programs over the links of one rank.")
        .def(
            "__init__",
            [](Executor* self, int rank, int size, const std::shared_ptr<Inbox>& inbox,
               const Descriptors& inboxes, const Descriptors& sockets, const Descriptors& processes,
               int ranks_on_host) {
                const bool crowded = ranks_on_host > static_cast<int>(std::thread::hardware_concurrency());
                std::vector<Life> lives;
                for (const auto& [peer, descriptor] : processes) lives.push_back({peer, Fd(descriptor)});
                new (self)
                    Executor(rank, links(rank, size, inbox, inboxes, sockets), std::move(lives), crowded);
            },
            nb::arg("rank"), nb::arg("size"), nb::arg("inbox").none(), nb::arg("inboxes"), nb::arg("sockets"),
            nb::arg("processes"), nb::arg("ranks_on_host"),
            "Takes over sockets and processes (pidfd), and maps the peers' inboxes: pairs of peer and "
            "descriptor.")
        .def("run", &run, nb::arg("program"), nb::arg("source"), nb::arg("target"), nb::arg("sizes"),
             nb::arg("in_offsets"), nb::arg("out_offsets"), nb::arg("dtype"), nb::arg("op"),
             nb::arg("fingerprint"), nb::arg("deadline"), nb::arg("pairwise") = false, nb::arg("kind") = 0,
             nb::arg("site") = 0, nb::arg("bytes") = 0,
             "Runs a program; blocks until it is through. The recorder keeps kind, site and bytes.")
        .def("recorder", &Executor::recorder, "The last calls, also after the executor is gone.")
        .def(
            "counters",
            [](const Executor& executor) {
                const auto& counters = executor.counters();
                return std::tuple(counters.calls, counters.sent, counters.received);
            },
            "Calls, and bytes sent to and received from every rank.");
}

}  // namespace unisono::bind
