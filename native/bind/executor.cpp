#include "execute/executor.hpp"

#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>
#include <type_traits>

#include "base/error.hpp"
#include "bind/bind.hpp"
#include "transport/shm/other_process.hpp"
#include "transport/shm/ring_link.hpp"
#include "transport/tcp/striped_link.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using Column = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const std::int32_t, nb::shape<-1, 11>, nb::c_contig, nb::device::cpu>;
using Sizes = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Homes = nb::ndarray<const std::int32_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const std::int32_t, nb::shape<-1, 4>, nb::c_contig, nb::device::cpu>;
using SharedRows = nb::ndarray<const std::int32_t, nb::shape<-1, 5>, nb::c_contig, nb::device::cpu>;
using Descriptors = std::vector<std::pair<int, int>>;  // peer, descriptor

template <class Array>
auto copied(const Array& column) {
    return std::vector<std::remove_const_t<typename Array::Scalar>>(column.data(),
                                                                    column.data() + column.size());
}

/// Rows of numbers as the structures that they are.
template <class Row, class Array>
std::vector<Row> as(const Array& rows) {
    std::vector<Row> result(rows.shape(0));
    if (!result.empty()) std::memcpy(result.data(), rows.data(), result.size() * sizeof(Row));
    return result;
}

Fd duplicate(int descriptor) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw_errno("cannot duplicate a descriptor");
    return Fd(copy);
}

using Inboxes = std::vector<std::pair<int, std::shared_ptr<Inbox>>>;  // peer, its inbox

Inboxes open(const Descriptors& descriptors) {
    Inboxes result;
    for (const auto& [peer, descriptor] : descriptors)
        result.emplace_back(peer, std::make_shared<Inbox>(Inbox::open(duplicate(descriptor))));
    return result;
}

std::vector<std::unique_ptr<Link>> links(int rank, int size, const std::shared_ptr<Inbox>& inbox,
                                         const Inboxes& inboxes, const Descriptors& sockets) {
    std::vector<std::unique_ptr<Link>> result(static_cast<std::size_t>(size));
    for (const auto& [peer, theirs] : inboxes)
        result.at(static_cast<std::size_t>(peer)) = std::make_unique<RingLink>(inbox, rank, theirs, peer);
    std::map<int, std::vector<Fd>> streams;
    for (const auto& [peer, descriptor] : sockets) streams[peer].emplace_back(descriptor);
    for (auto& [peer, descriptors] : streams)
        result.at(static_cast<std::size_t>(peer)) = link_over(std::move(descriptors));
    return result;
}

/// All ranks, if they share memory.
Neighbours neighbours(int size, const std::shared_ptr<Inbox>& inbox, const Inboxes& inboxes,
                      const Descriptors& processes) {
    if (static_cast<int>(inboxes.size()) + 1 != size || !inbox) return {};
    Neighbours result;
    result.own = inbox;
    result.ranks.resize(static_cast<std::size_t>(size));
    for (const auto& [peer, theirs] : inboxes) result.ranks.at(static_cast<std::size_t>(peer)).inbox = theirs;
    for (const auto& [peer, process] : processes)
        result.ranks.at(static_cast<std::size_t>(peer)).process = process;
    return result;
}

std::vector<Life> lives(const Descriptors& processes, const Inboxes& inboxes) {
    std::vector<Life> result;
    for (const auto& [peer, process] : processes) {
        Fd descriptor(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
        if (!descriptor.valid()) throw_errno("watching rank " + std::to_string(peer));
        const auto inbox = std::ranges::find(inboxes, peer, [](const auto& each) { return each.first; });
        result.push_back({peer, std::move(descriptor), inbox == inboxes.end() ? nullptr : inbox->second});
    }
    return result;
}

Clock::time_point after(double seconds) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
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
    const Call call{reinterpret_cast<const std::byte*>(in),
                    reinterpret_cast<std::byte*>(out),
                    {sizes.data(), blocks},
                    {in_offsets.data(), blocks},
                    {out_offsets.data(), blocks},
                    static_cast<Dtype>(dtype),
                    static_cast<Op>(op),
                    fingerprint,
                    pairwise,
                    after(deadline),
                    {kind, site, bytes}};
    const nb::gil_scoped_release without_gil;
    executor.run(program, call, check_signals);
}

void run_shared(Executor& executor, const SharedPlan& plan, std::uintptr_t in, std::size_t in_bytes,
                std::uintptr_t out, std::size_t out_bytes, double deadline, std::uint32_t kind,
                std::uint32_t site, std::uint64_t bytes) {
    if (!executor.neighbours().own) throw std::invalid_argument("these ranks do not share memory");
    const auto until = after(deadline);
    const nb::gil_scoped_release without_gil;
    executor.run(plan, {reinterpret_cast<std::byte*>(in), in_bytes},
                 {reinterpret_cast<std::byte*>(out), out_bytes}, until, {kind, site, bytes}, check_signals);
}

/// Bytes in the memory that this rank shares; they go back when the array is collected.
nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>> empty(const std::shared_ptr<Inbox>& inbox,
                                                        std::size_t size) {
    struct Piece {
        std::shared_ptr<Inbox> inbox;
        std::byte* bytes;
    };
    std::byte* const bytes = inbox->heap().allocate(size);
    const nb::capsule owner(new Piece{inbox, bytes}, [](void* pointer) noexcept {
        const std::unique_ptr<Piece> piece(static_cast<Piece*>(pointer));
        piece->inbox->heap().free(piece->bytes);
    });
    return {reinterpret_cast<std::uint8_t*>(bytes), {size}, owner};
}

}  // namespace

void executor(nb::module_& module) {
    nb::class_<Inbox>(module, "Inbox", "Shared memory that the ranks of a host write to for one of them.")
        .def(
            "__init__",
            [](Inbox* self, int ranks, std::size_t ring_bytes, std::size_t stage_bytes,
               std::size_t heap_bytes) {
                new (self) Inbox(Inbox::create({ranks, ring_bytes, stage_bytes, heap_bytes}));
            },
            nb::arg("ranks"), nb::arg("ring_bytes"), nb::arg("stage_bytes") = 0, nb::arg("heap_bytes") = 0)
        .def("descriptor", &Inbox::descriptor, "What a peer needs in order to map it.")
        .def("empty", &empty, nb::arg("size"), "So many bytes of the shared heap.");

    nb::class_<Program>(module, "Program", "A lowered program of one rank.")
        .def(
            "__init__",
            [](Program* self, int rank, int ranks, int blocks, const Column& slots, const Rows& rows,
               const Homes& operands, const Column& waits_for, const Column& waits_from) {
                new (self) Program(rank, ranks, blocks, copied(slots), as<Instruction>(rows),
                                   as<Home>(operands), copied(waits_for), copied(waits_from));
            },
            nb::arg("rank"), nb::arg("ranks"), nb::arg("blocks"), nb::arg("slots"), nb::arg("instructions"),
            nb::arg("operands"), nb::arg("waits_for"), nb::arg("waits_from"));

    nb::class_<SharedProgram>(module, "SharedProgram", "A program of one rank for memory that ranks share.")
        .def(
            "__init__",
            [](SharedProgram* self, int rank, int ranks, int blocks, int steps, const Places& places,
               const SharedRows& rows, const Column& references) {
                new (self) SharedProgram(rank, ranks, blocks, steps, as<SharedPlace>(places),
                                         as<SharedInstruction>(rows), copied(references));
            },
            nb::arg("rank"), nb::arg("ranks"), nb::arg("blocks"), nb::arg("steps"), nb::arg("places"),
            nb::arg("instructions"), nb::arg("references"));

    nb::class_<SharedPlan>(module, "SharedPlan", "A shared program for blocks of certain sizes.")
        .def(
            "__init__",
            [](SharedPlan* self, std::shared_ptr<const SharedProgram> program, const Sizes& sizes,
               const Sizes& offsets, const Sizes& staged, std::uint64_t window, std::uint64_t windows,
               bool tiny, bool may_stage, std::size_t stage_bytes, int dtype, int op,
               std::uint64_t fingerprint) {
                const SharedPlan plan{std::move(program),
                                      copied(sizes),
                                      copied(offsets),
                                      copied(staged),
                                      window,
                                      windows,
                                      tiny,
                                      may_stage,
                                      static_cast<Dtype>(dtype),
                                      static_cast<Op>(op),
                                      fingerprint};
                plan.check(stage_bytes);
                new (self) SharedPlan(plan);
            },
            nb::arg("program"), nb::arg("sizes"), nb::arg("offsets"), nb::arg("staged"), nb::arg("window"),
            nb::arg("windows"), nb::arg("tiny"), nb::arg("may_stage"), nb::arg("stage_bytes"),
            nb::arg("dtype"), nb::arg("op"), nb::arg("fingerprint"));

    nb::class_<Executor>(module, "Executor", "Runs programs over the links of one rank.")
        .def(
            "__init__",
            [](Executor* self, int rank, int size, const std::shared_ptr<Inbox>& inbox,
               const Descriptors& inboxes, const Descriptors& sockets, const Descriptors& processes,
               int alarm, int ranks_on_host) {
                const bool crowded = ranks_on_host > static_cast<int>(std::thread::hardware_concurrency());
                const auto theirs = open(inboxes);
                let_others_read();
                Host host{.own = inbox,
                          .lives = lives(processes, theirs),
                          .alarm = alarm < 0 ? Fd() : duplicate(alarm),
                          .neighbours = neighbours(size, inbox, theirs, processes),
                          .more_ranks_than_cores = crowded};
                new (self) Executor(rank, links(rank, size, inbox, theirs, sockets), std::move(host));
            },
            nb::arg("rank"), nb::arg("size"), nb::arg("inbox").none(), nb::arg("inboxes"), nb::arg("sockets"),
            nb::arg("processes"), nb::arg("alarm"), nb::arg("ranks_on_host"),
            "Takes over sockets, maps the peers' inboxes and watches their processes: pairs of peer and "
            "descriptor, or process number. Several sockets of a peer share its bytes, in the order that "
            "both ends "
            "agreed on. Calls fail while the alarm, a descriptor of the caller's, is readable.")
        .def("run", &run, nb::arg("program"), nb::arg("source"), nb::arg("target"), nb::arg("sizes"),
             nb::arg("in_offsets"), nb::arg("out_offsets"), nb::arg("dtype"), nb::arg("op"),
             nb::arg("fingerprint"), nb::arg("deadline"), nb::arg("pairwise") = false, nb::arg("kind") = 0,
             nb::arg("site") = 0, nb::arg("bytes") = 0,
             "Runs a program; blocks until it is through. The recorder keeps kind, site and bytes.")
        .def("run_shared", &run_shared, nb::arg("plan"), nb::arg("source"), nb::arg("source_bytes"),
             nb::arg("target"), nb::arg("target_bytes"), nb::arg("deadline"), nb::arg("kind") = 0,
             nb::arg("site") = 0, nb::arg("bytes") = 0, "The same for ranks that share memory.")
        .def(
            "shares_memory", [](Executor& executor) { return executor.neighbours().own != nullptr; },
            "Do all ranks share memory?")
        .def(
            "can_be_direct", [](Executor& executor) { return executor.neighbours().can_be_direct(); },
            "Can this process use the private memory of all others?")
        .def("leave", &Executor::leave,
             "Tells the other ranks of the host that this one will make no more calls.")
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
