#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include "bind/bind.hpp"
#include "bind/columns.hpp"
#include "bind/held.hpp"
#include "execute/link_plan.hpp"
#include "execute/shared_plan.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using HeldProgram = Held<const Program>;
using HeldSharedProgram = Held<const SharedProgram>;
using HeldLinkPlan = Held<const LinkPlan>;
using HeldSharedPlan = Held<const SharedPlan>;

Arithmetic arithmetic(int dtype, int op, double factor, std::int64_t divisor) {
    return {static_cast<Dtype>(dtype), static_cast<Op>(op), factor, divisor};
}

void programs(nb::module_& module) {
    nb::class_<HeldProgram>(module, "Program", "A lowered program of one rank, for links.")
        .def(
            "__init__",
            [](HeldProgram* self, int rank, int ranks, int blocks, const Column& slots, const Rows<11>& rows,
               const Rows<2>& operands, const Column& waits_for, const Column& waits_from,
               const Column& round_of, std::int32_t rounds) {
                new (self) HeldProgram{std::make_shared<const Program>(
                    rank, ranks, blocks, copied(slots), as<Instruction>(rows), as<Home>(operands),
                    copied(waits_for), copied(waits_from), Rounds{copied(round_of), rounds})};
            },
            nb::arg("rank"), nb::arg("ranks"), nb::arg("blocks"), nb::arg("slots"), nb::arg("instructions"),
            nb::arg("operands"), nb::arg("waits_for"), nb::arg("waits_from"), nb::arg("round_of"),
            nb::arg("rounds"));

    nb::class_<HeldSharedProgram>(module, "SharedProgram",
                                  "A program of one rank for memory that ranks share.")
        .def(
            "__init__",
            [](HeldSharedProgram* self, int rank, int ranks, int blocks, int steps, const Rows<4>& places,
               const Rows<5>& rows, const Column& references, const Column& round_of, std::int32_t rounds) {
                new (self) HeldSharedProgram{std::make_shared<const SharedProgram>(
                    rank, ranks, blocks, steps, as<SharedPlace>(places), as<SharedInstruction>(rows),
                    copied(references), Rounds{copied(round_of), rounds})};
            },
            nb::arg("rank"), nb::arg("ranks"), nb::arg("blocks"), nb::arg("steps"), nb::arg("places"),
            nb::arg("instructions"), nb::arg("references"), nb::arg("round_of"), nb::arg("rounds"));
}

}  // namespace

void plans(nb::module_& module) {
    programs(module);

    nb::class_<HeldLinkPlan>(module, "LinkPlan", "A program for links, for blocks of certain sizes.")
        .def(
            "__init__",
            [](HeldLinkPlan* self, const HeldProgram& program, const Sizes& sizes, const Sizes& in_offsets,
               const Sizes& out_offsets, int dtype, int op, double factor, std::int64_t divisor,
               std::uint64_t fingerprint, bool pairwise) {
                LinkPlan plan{program.value,
                              copied(sizes),
                              copied(in_offsets),
                              copied(out_offsets),
                              arithmetic(dtype, op, factor, divisor),
                              fingerprint,
                              pairwise};
                plan.check();
                new (self) HeldLinkPlan{std::make_shared<const LinkPlan>(std::move(plan))};
            },
            nb::arg("program"), nb::arg("sizes"), nb::arg("in_offsets"), nb::arg("out_offsets"),
            nb::arg("dtype"), nb::arg("op"), nb::arg("factor"), nb::arg("divisor"), nb::arg("fingerprint"),
            nb::arg("pairwise") = false);

    nb::class_<HeldSharedPlan>(module, "SharedPlan", "A shared program for blocks of certain sizes.")
        .def(
            "__init__",
            [](HeldSharedPlan* self, const HeldSharedProgram& program, const Sizes& sizes,
               const Sizes& offsets, const Sizes& staged, std::uint64_t window, std::uint64_t windows,
               std::uint64_t stage_step, std::uint64_t stage_turns, bool tiny, bool may_stage,
               std::size_t stage_bytes, int dtype, int op, double factor, std::int64_t divisor,
               std::uint64_t fingerprint, bool sums_at_once, std::optional<bool> trials) {
                SharedPlan plan{program.value,
                                copied(sizes),
                                copied(offsets),
                                copied(staged),
                                window,
                                windows,
                                stage_step,
                                stage_turns,
                                tiny,
                                may_stage,
                                arithmetic(dtype, op, factor, divisor),
                                fingerprint,
                                sums_at_once,
                                trials ? std::make_shared<Trials>(*trials, stage_turns, windows) : nullptr};
                plan.check(stage_bytes);
                new (self) HeldSharedPlan{std::make_shared<const SharedPlan>(std::move(plan))};
            },
            nb::arg("program"), nb::arg("sizes"), nb::arg("offsets"), nb::arg("staged"), nb::arg("window"),
            nb::arg("windows"), nb::arg("stage_step"), nb::arg("stage_turns"), nb::arg("tiny"),
            nb::arg("may_stage"), nb::arg("stage_bytes"), nb::arg("dtype"), nb::arg("op"), nb::arg("factor"),
            nb::arg("divisor"), nb::arg("fingerprint"), nb::arg("sums_at_once"), nb::arg("trials").none(),
            "`trials`: of ways to private memory, if there is a choice; whether one of them is direct.");
}

}  // namespace unisono::bind
