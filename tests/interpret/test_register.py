"""A user's algorithm: a few lines, verified when it is registered, and then used like a built-in one."""

from collections.abc import Iterator

import pytest

from unisono.errors import ScheduleError
from unisono.interpret.explain import explain
from unisono.interpret.register import register
from unisono.schedule import catalog
from unisono.schedule.algorithm import Parameter
from unisono.schedule.combine import then
from unisono.schedule.direct import direct_reduce_scatter
from unisono.schedule.ir import Get, Put, Span, rounds
from unisono.schedule.pattern import all_alike
from unisono.schedule.ring import ring_allgather


@pytest.fixture(autouse=True)
def own_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone when it ends."""
    copy = {collective: dict(known) for collective, known in catalog._catalog.items()}
    monkeypatch.setattr(catalog, "_catalog", copy)


def backward_ring(p: int, r: int) -> Iterator[tuple]:
    """The ring, the other way round."""
    t = rounds(p - 1)
    yield Put((r - 1) % p, Span((r + t) % p)), Get((r + 1) % p, Span((r + t + 1) % p))


def test_a_registered_algorithm_is_found_and_explained_like_a_built_in_one() -> None:
    register("allgather")(backward_ring)
    found = catalog.find("allgather", "backward_ring")
    assert found.summary == "The ring, the other way round."
    mine = next(x for x in explain("allgather", 8, 1 << 20) if x.schedule.name == "backward_ring")
    ring = next(x for x in explain("allgather", 8, 1 << 20) if x.schedule.name == "ring")
    assert mine.time == ring.time


def test_a_composition_of_built_in_parts_can_be_registered() -> None:
    mixed = then(
        direct_reduce_scatter, ring_allgather, name="direct_then_ring", summary="Add up at once, pass on in turn."
    )
    register("allreduce")(mixed)
    assert catalog.find("allreduce", "direct_then_ring").schedule(5).table.rounds == 1 + 4


def test_a_wrong_algorithm_is_refused_with_the_place_of_its_mistake() -> None:
    def forgets_one(p: int, r: int) -> Iterator[tuple]:
        t = rounds(p - 2) if p > 1 else rounds(0)
        yield Put((r + 1) % p, Span((r - t) % p)), Get((r - 1) % p, Span((r - t - 1) % p))

    with pytest.raises(ScheduleError, match=r"allgather 'forgets_one' on 2 ranks: .*rank 0, block 1: lost"):
        register("allgather")(forgets_one)
    with pytest.raises(ScheduleError, match="no algorithm"):
        catalog.find("allgather", "forgets_one")


def test_symmetry_that_is_not_there_is_refused() -> None:
    def tree(p: int, r: int, root: int) -> Iterator[tuple]:
        yield from catalog.find("broadcast", "mst").pattern(p, r, root=root)

    with pytest.raises(ScheduleError, match="declared alike, but"):
        register("broadcast", alike=all_alike)(tree)


def test_parameters_have_defaults_and_rules() -> None:
    def ring_from(p: int, r: int, steps: int) -> Iterator[tuple]:
        yield from backward_ring(p, r)

    rule = Parameter(lambda p: 1, lambda p, steps: steps == 1, "1")
    register("allgather", name="stepped", parameters={"steps": rule})(ring_from)
    with pytest.raises(ScheduleError, match="stepped on 4 ranks: steps is 1, not 2"):
        catalog.find("allgather", "stepped").schedule(4, steps=2)


def test_an_unknown_collective_is_refused_with_a_hint() -> None:
    with pytest.raises(ScheduleError, match="did you mean 'allgather'"):
        register("allgatter")(backward_ring)


def test_a_name_is_taken_once() -> None:
    register("allgather")(backward_ring)
    with pytest.raises(ScheduleError, match="already"):
        register("allgather")(backward_ring)


@pytest.mark.parametrize("mistake", ["if", "type", "nothing"])
def test_a_pattern_that_does_not_work_on_an_array_of_ranks_is_told_how_to(mistake: str) -> None:
    def own(p: int, r: int, root: int) -> Iterator[object]:
        if mistake == "if" and r == root and p > 1:
            yield Put((r + 1) % p, Span(0))
        if mistake == "type":
            yield "hello"
        if mistake == "nothing":
            yield None

    with pytest.raises(ScheduleError, match=r"broadcast 'own' cannot be unrolled on \d+ ranks: .* where\(condition"):
        register("broadcast", blocks=lambda p: 1)(own)
