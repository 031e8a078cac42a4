#include "execute/executor.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "bind/bind.hpp"
#include "bind/core.hpp"
#include "bind/held.hpp"
#include "bind/interpreter.hpp"
#include "transport/shm/other_process.hpp"
#include "transport/shm/ring_link.hpp"
#include "transport/tcp/striped_link.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using Descriptors = std::vector<std::pair<int, int>>;                 // peer, descriptor
using Processes = std::vector<std::pair<int, int>>;                   // peer, number of its process
using Inboxes = std::vector<std::pair<int, std::shared_ptr<Inbox>>>;  // peer, its inbox
using HeldInbox = Held<Inbox>;

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

/// Runs a call here and now, and returns nothing; or starts it, if it is to be, or if others are under way.
template <class Plan>
nb::object run(const Core& core, const Held<const Plan>& plan, std::uintptr_t in, std::size_t in_bytes,
               std::uintptr_t out, std::size_t out_bytes, double deadline, std::uint32_t kind,
               std::uint32_t site, std::uint64_t bytes, bool later) {
    Request request{{reinterpret_cast<std::byte*>(in), in_bytes},
                    {reinterpret_cast<std::byte*>(out), out_bytes},
                    after(deadline),
                    {kind, site, bytes},
                    quick_now()};
    auto call = [executor = core.executor, plan = plan.value, request,
                 caller = std::this_thread::get_id()](bool in_background) mutable {
        AnyThread thread(caller);
        request.in_background = in_background;
        executor->run(*plan, request, thread);
    };
    std::shared_ptr<Ticket> ticket;
    core.executor->require_going_on();
    {
        const WithoutInterpreter elsewhere;
        ticket = later ? core.calls->start(std::move(call)) : core.calls->run_or_start(std::move(call));
    }
    return ticket ? nb::cast(Held<Ticket>{std::move(ticket)}) : nb::none();
}

/// Bytes in the memory that this rank shares; they go back when the array is collected.
nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>> empty(const HeldInbox& inbox, std::size_t size) {
    struct Piece {
        std::shared_ptr<Inbox> inbox;
        std::byte* bytes;
    };
    std::byte* const bytes = inbox.value->heap().allocate(size);
    const nb::capsule owner(new Piece{inbox.value, bytes}, [](void* pointer) noexcept {
        const std::unique_ptr<Piece> piece(static_cast<Piece*>(pointer));
        piece->inbox->heap().free(piece->bytes);
    });
    return {reinterpret_cast<std::uint8_t*>(bytes), {size}, owner};
}

using Counted =
    std::tuple<std::uint64_t, std::uint64_t, std::vector<std::uint64_t>, std::vector<std::uint64_t>>;

Counted counters(const Core& core) {
    const auto& [calls, instructions, sent, received] = core.executor->counters();
    return {
        calls.load(), instructions.load(), {sent.begin(), sent.end()}, {received.begin(), received.end()}};
}

using Failure = std::tuple<std::int32_t, std::uint64_t, std::int32_t, double>;  // as Injection has them

void inject(const Core& core, const std::vector<Failure>& failures) {
    std::vector<Injection> injections;
    for (const auto& [action, call, round, seconds] : failures) {
        if (action < 0 || action > static_cast<std::int32_t>(Action::drop))
            throw std::invalid_argument("there is no such failure to inject");
        const auto pause = std::chrono::duration<double>(seconds);
        injections.push_back({static_cast<Action>(action), call, round,
                              std::chrono::duration_cast<std::chrono::nanoseconds>(pause)});
    }
    core.executor->inject(std::move(injections));
}

void stop(const Core& core, double seconds) {
    const auto until = after(seconds);
    core.executor->stop();
    const WithoutInterpreter elsewhere;
    while ((core.calls->busy() || WithoutInterpreter::threads() > 1) && Clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void begin_again(const Core& core, const std::vector<std::uint64_t>& sent_to_this, std::uint64_t sequence,
                 double deadline) {
    if (sent_to_this.size() != static_cast<std::size_t>(core.executor->size()))
        throw std::invalid_argument("every rank has to tell what it sent");
    const auto until = after(deadline);
    PythonThread caller;
    core.executor->begin_again(sent_to_this, sequence, until, caller);
}

template <class Plan>
void bind_run(nb::class_<Core>& core, const char* doc) {
    core.def(
        "run", &run<Plan>, nb::arg("plan"), nb::arg("source"), nb::arg("source_bytes"), nb::arg("target"),
        nb::arg("target_bytes"), nb::arg("deadline"), nb::arg("kind") = 0, nb::arg("site") = 0,
        nb::arg("bytes") = 0, nb::arg("later") = false,
        nb::sig(std::is_same_v<Plan, LinkPlan>
                    ? "def run(self, plan: LinkPlan, source: int, source_bytes: int, target: int, "
                      "target_bytes: int, deadline: float, kind: int = 0, site: int = 0, bytes: int = 0, "
                      "later: bool = False) -> Ticket | None"
                    : "def run(self, plan: SharedPlan, source: int, source_bytes: int, target: int, "
                      "target_bytes: int, deadline: float, kind: int = 0, site: int = 0, bytes: int = 0, "
                      "later: bool = False) -> Ticket | None"),
        doc);
}

}  // namespace

void executor(nb::module_& module) {
    nb::class_<HeldInbox>(module, "Inbox", "Shared memory that the ranks of a host write to for one of them.")
        .def(
            "__init__",
            [](HeldInbox* self, int ranks, std::size_t ring_bytes, std::size_t stage_bytes,
               std::size_t heap_bytes) {
                new (self) HeldInbox{
                    std::make_shared<Inbox>(Inbox::create({ranks, ring_bytes, stage_bytes, heap_bytes}))};
            },
            nb::arg("ranks"), nb::arg("ring_bytes"), nb::arg("stage_bytes") = 0, nb::arg("heap_bytes") = 0)
        .def(
            "descriptor", [](const HeldInbox& inbox) { return inbox.value->descriptor(); },
            "What a peer needs in order to map it.")
        .def("empty", &empty, nb::arg("size"), "So many bytes of the shared heap.");

    nb::class_<Core> core(module, "Executor", nb::is_weak_referenceable(),
                          "Runs programs over the links of one rank.");
    core.def(
            "__init__",
            [](Core* self, int rank, int size, const HeldInbox* own, const Descriptors& inboxes,
               const Descriptors& sockets, const Processes& processes, int ranks_on_machine) {
                const auto inbox = own == nullptr ? nullptr : own->value;
                const auto theirs = open(inboxes);
                let_others_read();
                Host host{.own = inbox,
                          .lives = lives(processes, theirs),
                          .neighbours = neighbours(size, inbox, theirs, processes),
                          .more_ranks_than_cores =
                              ranks_on_machine > static_cast<int>(std::thread::hardware_concurrency())};
                new (self) Core{std::make_shared<Executor>(rank, links(rank, size, inbox, theirs, sockets),
                                                           std::move(host))};
            },
            nb::arg("rank"), nb::arg("size"), nb::arg("inbox").none(), nb::arg("inboxes"), nb::arg("sockets"),
            nb::arg("processes"), nb::arg("ranks_on_machine"),
            "Takes over sockets, maps the peers' inboxes and watches their processes: pairs of peer and "
            "descriptor, or process number. Several sockets of a peer share its bytes, in the order that "
            "both ends agreed on.")
        .def(
            "busy", [](const Core& self) { return self.calls->busy(); }, "Is a call under way?")
        .def(
            "shares_memory", [](const Core& self) { return self.executor->neighbours().own != nullptr; },
            "Do all ranks share memory?")
        .def(
            "can_be_direct", [](const Core& self) { return self.executor->neighbours().can_be_direct(); },
            "Can this process use the private memory of all others?")
        .def("inject", &inject, nb::arg("injections"),
             "Failures to rehearse: what (0 kill, 1 stall, 2 delay, 3 drop), in which call, from which round "
             "on, "
             "and for how many seconds.")
        .def(
            "leave", [](const Core& self) { self.executor->leave(); },
            "Tells the other ranks of the host that this one will make no more calls.")
        .def(
            "gone",
            [](const Core& self) {
                auto [ended, left] = self.executor->gone();
                return std::pair(std::move(ended), std::move(left));
            },
            "Ranks whose process has ended, and ranks that closed their communicator or whose connection is "
            "closed. Not while a call is under way.")
        .def("stop", &stop, nb::arg("seconds"),
             "Makes the calls under way fail, and waits for at most so many seconds until they have, and no "
             "thread is in a call.")
        .def(
            "recorder", [](const Core& self) { return self.executor->recorder(); },
            "The last calls, also after the executor is gone.")
        .def(
            "position",
            [](const Core& self) {
                return std::make_pair(self.executor->sequence(), self.executor->sent_over_links());
            },
            "The number of the next call of all ranks, and the bytes that were sent to each over links.")
        .def(
            "give_up_from",
            [](const Core& self, std::optional<std::uint64_t> sequence) {
                self.executor->give_up_from(sequence);
            },
            nb::arg("sequence").none(),
            "That call of all ranks and those after it fail soon, here too; None means any.")
        .def(
            "give_up_nothing", [](const Core& self) { self.executor->give_up_nothing(); },
            "Calls may succeed again.")
        .def("begin_again", &begin_again, nb::arg("sent_to_this"), nb::arg("sequence"), nb::arg("deadline"),
             "After a call failed everywhere: drops what is still on its way, and counts calls from there.")
        .def("counters", &counters, "Calls, instructions, and bytes sent to and received from every rank.");
    bind_run<LinkPlan>(core, "Runs a call; returns a ticket if it is to run later, or others are under way.");
    bind_run<SharedPlan>(core, "The same for ranks that share memory.");
}

}  // namespace unisono::bind
