"""Calls of communicators as operations."""

import inspect
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.comm.world import World

import unisono
from unisono.comm.communicator import Communicator
from unisono.engine import Engine, SerialEngine
from unisono.errors import ConfigError, MismatchError, PeerLost

HERE = "test_calls.py"

CALLS: dict[str, Callable[[Communicator], dict[str, Any]]] = {
    "allreduce": lambda comm: {"x": np.arange(5.0) + comm.rank},
    "broadcast": lambda comm: {"x": np.arange(5.0) + comm.rank, "root": 1},
    "reduce": lambda comm: {"x": np.arange(5.0) + comm.rank, "root": 2, "op": "max"},
    "scan": lambda comm: {"x": [comm.rank, 1]},
    "allgather": lambda comm: {"x": np.full(3, comm.rank)},
    "allgatherv": lambda comm: {"x": np.full(1 + comm.rank, comm.rank)},
    "gather": lambda comm: {"x": np.full(3, comm.rank)},
    "gatherv": lambda comm: {"x": np.full(1 + comm.rank, comm.rank), "root": 1},
    "scatter": lambda comm: {"x": np.arange(6.0) if comm.rank == 0 else None, "out": np.zeros(2)},
    "scatterv": lambda comm: {
        "x": np.arange(6.0) if comm.rank == 0 else None, "counts": [1, 2, 3], "out": np.zeros(1 + comm.rank)
    },
    "reduce_scatter": lambda comm: {"x": np.arange(6.0) * comm.rank},
    "alltoall": lambda comm: {"x": np.arange(6) + 10 * comm.rank},
    "alltoallv": lambda comm: {"x": np.arange(6) + 10 * comm.rank, "counts": [1, 2, 3]},
    "sendrecv": lambda comm: {"x": np.full(4, comm.rank), "to": (comm.rank + 1) % 3, "source": (comm.rank - 1) % 3},
    "barrier": lambda comm: {},
    "allgather_object": lambda comm: {"value": {"rank": comm.rank}},
    "gather_object": lambda comm: {"value": {"rank": comm.rank}},
    "broadcast_object": lambda comm: {"value": {"rank": comm.rank}},
}  # fmt: skip


def test_every_call_of_a_communicator_has_an_asynchronous_one() -> None:
    no_calls = {"start", "close", "stats", "empty", "shrink", "split", "duplicate", "explain"}
    methods = {name for name, _ in inspect.getmembers(Communicator, callable) if not name.startswith("_")} - no_calls
    calls = {name for name in methods if not name.endswith("_async")}
    assert methods - calls == {f"{name}_async" for name in calls}
    assert calls == {*CALLS, "send", "recv"}


@pytest.mark.parametrize("links", ["direct", "tcp"])
@pytest.mark.parametrize("call", CALLS)
def test_a_call_gives_the_same_with_an_engine_as_without(call: str, links: str) -> None:
    def rank(comm: Communicator) -> tuple[Any, Any, Any, Any]:
        direct = getattr(comm, call)(**CALLS[call](comm))
        started = getattr(comm, f"{call}_async")(**CALLS[call](comm)).wait()
        results = [direct, started]
        for engine in (Engine(2), SerialEngine()):
            with engine:
                B, C = engine.variable("B"), engine.variable("C")
                pushed = getattr(comm, f"{call}_async")
                operation = pushed(**CALLS[call](comm), engine=engine, read=[B], mutate=[C])
                engine.wait(C, deadline=20)
                results.append(operation.wait())
        return tuple(results)  # type: ignore[return-value]

    with World(3, links, allow_pickle=True) as world:
        for results in world.run(rank):
            assert repr(results[0]) == repr(results[1]) == repr(results[2]) == repr(results[3])


@pytest.mark.parametrize("links", ["direct", "tcp"])
def test_what_is_sent_is_what_was_computed_before(links: str) -> None:
    def rank(comm: Communicator) -> list[float]:
        a, b = np.zeros(1000), np.zeros(1000)
        with Engine(2) as engine:
            A, B = engine.tag(a, "a"), engine.tag(b, "b")
            for step in range(20):
                engine.push(lambda step=step: a.__iadd__(comm.rank + step), mutate=[A])
                comm.allreduce_async(a, out=b, engine=engine, read=[a], mutate=[b])
                engine.push(lambda: a.__iadd__(b), read=[B], mutate=[A])
            engine.wait(a, deadline=20)
        return [float(a[0]), float(b[-1])]

    def serial(comm: Communicator) -> list[float]:
        a = np.zeros(1000)
        for step in range(20):
            a += comm.rank + step
            b = comm.allreduce(a)
            a += b
        return [float(a[0]), float(b[-1])]

    with World(2, links) as world:
        assert world.run(rank) == world.run(serial)


def test_point_to_point_calls_are_operations() -> None:
    def rank(comm: Communicator) -> float:
        x, y = np.full(3, 1.0 + comm.rank), np.zeros(3)
        with Engine(2) as engine:
            X, Y = engine.tag(x), engine.tag(y)
            for _ in range(5):
                if comm.rank == 0:
                    comm.send_async(x, 1, engine=engine, read=[X])
                    comm.recv_async(1, out=y, engine=engine, mutate=[Y])
                else:
                    comm.recv_async(0, out=y, engine=engine, mutate=[Y])
                    comm.send_async(x, 0, engine=engine, read=[X])
                engine.push(lambda: x.__iadd__(y), read=[Y], mutate=[X])
            engine.wait(X, deadline=20)
        return float(x[0])

    with World(2) as world:
        assert world.run(rank) == [48.0, 48.0]


def test_a_call_holds_no_thread() -> None:
    arrived = threading.Barrier(2)

    def rank(comm: Communicator) -> str:
        with Engine(1) as engine:
            if comm.rank == 1:
                arrived.wait(20)  # rank 0 waits in its barrier, and its only thread runs the other operation
            operation = comm.barrier_async(engine=engine)
            if comm.rank == 0:
                engine.push(lambda: arrived.wait(20)).wait(20)
            operation.wait(20)
        return "done"

    with World(2) as world:
        assert world.run(rank) == ["done", "done"]


def test_communicators_progress_independently_in_any_order() -> None:
    def rank(comms: tuple[Communicator, Communicator]) -> list[float]:
        one, other = comms
        x, y = np.ones(100_000), np.ones(100_000)
        with Engine(1) as engine:
            pushes = [
                lambda: one.allreduce_async(x, out=x, engine=engine, mutate=[engine.tag(x)]),
                lambda: other.allreduce_async(y, out=y, engine=engine, mutate=[engine.tag(y)]),
            ]
            for _ in range(10):
                for push in pushes if one.rank == 0 else pushes[::-1]:
                    push()
            engine.wait(deadline=20)
        return [float(x[0]), float(y[0])]

    with World(2, "tcp") as first, World(2, "direct") as second, World(2) as both:
        pairs = list(zip(first.ranks, second.ranks, strict=True))
        assert both.run(lambda comm: rank(pairs[comm.rank])) == [[1024.0, 1024.0]] * 2


def test_duplicates_of_a_communicator_are_called_in_any_order() -> None:
    def job() -> tuple[float, float]:
        x, y = np.ones(100_000), np.ones(100_000)
        with unisono.init(deadline=60) as comm, Engine(1) as engine, comm.duplicate() as other:
            pushes = [
                lambda: comm.allreduce_async(x, out=x, engine=engine, mutate=[engine.tag(x, "x")]),
                lambda: other.allreduce_async(y, out=y, engine=engine, mutate=[engine.tag(y, "y")]),
            ]
            for _ in range(6):
                for push in pushes if comm.rank == 0 else pushes[::-1]:
                    push()
            engine.wait(deadline=60)
        return float(x[0]), float(y[-1])

    assert unisono.launch(job, 2, timeout=120) == [(64.0, 64.0)] * 2


def test_a_wrong_argument_is_raised_with_the_line_of_the_push() -> None:
    with World(1) as world, Engine(1) as engine:
        operation = world.ranks[0].allreduce_async(np.ones(3), "mean", engine=engine)
        with pytest.raises(ConfigError, match="no operator 'mean'") as caught:
            operation.wait(20)
        assert f"{HERE}:" in caught.value.__notes__[0]
        engine.restore(world.ranks[0])
        assert world.ranks[0].allreduce_async([1], engine=engine).wait(20) == [1]
    with pytest.raises(ConfigError, match="for an engine="):
        world.ranks[0].allreduce_async([1], read=[None])


DIVERGENT: dict[str, Callable[[Communicator, Engine, Any], None]] = {}


def divergent(function: Callable[[Communicator, Engine, Any], None]) -> Callable[[Communicator, Engine, Any], None]:
    DIVERGENT[function.__name__] = function
    return function


@divergent
def other_sizes(comm: Communicator, engine: Engine, push: Any) -> None:
    x, y = np.ones(10), np.ones(20)
    for data in (x, y) if comm.rank == 0 else (y, x):
        push(data, None)


@divergent
def same_shapes(comm: Communicator, engine: Engine, push: Any) -> None:
    gradients = {name: np.ones(10) for name in ("weights", "bias")}
    for name in sorted(gradients, reverse=comm.rank == 0):
        push(gradients[name], engine.tag(gradients[name], name))


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("how", DIVERGENT)
def test_another_order_on_another_rank_names_the_first_divergent_push(how: str, links: str) -> None:
    def job() -> tuple[str, float]:
        with unisono.init(links=links, deadline=20) as comm, Engine(2) as engine:

            def push_here(data: Any, variable: Any) -> None:
                comm.allreduce_async(data, engine=engine, mutate=[variable] if variable else [])  # a push of rank 0

            def push_there(data: Any, variable: Any) -> None:
                comm.allreduce_async(data, engine=engine, mutate=[variable] if variable else [])  # a push of rank 1

            comm.barrier_async(engine=engine)
            DIVERGENT[how](comm, engine, push_here if comm.rank == 0 else push_there)
            with pytest.raises(MismatchError) as caught:
                engine.wait(deadline=20)
            engine.restore(comm)
            after = comm.allreduce_async([1.5], engine=engine).wait(20)[0]
        return str(caught.value), after

    answers = unisono.launch(job, 2, timeout=60)
    assert answers[0] == answers[1]
    text, after = answers[0]
    assert after == 3.0
    source = inspect.getsource(inspect.getmodule(job)).splitlines()  # type: ignore[arg-type]
    lines = [next(i for i, line in enumerate(source, 1) if f"# a push of rank {r}" in line) for r in (0, 1)]
    assert "call 1 " in text, "the barrier was the same"
    for line in lines:
        assert f"{HERE}:{line}" in text
    if how == "same_shapes":
        assert "weights" in text
        assert "bias" in text


def line_of(marker: str) -> str:
    with open(__file__) as source:
        return f"{HERE}:{next(i for i, line in enumerate(source, 1) if line.rstrip().endswith(f'# {marker}'))}"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("differs", ["size", "name"])
def test_a_send_and_a_receive_that_differ_are_told_with_both_lines(differs: str, links: str) -> None:
    def rank(comm: Communicator) -> str:
        with Engine(2) as engine:
            for size, name in ((8, "x"), (4, "y")) if comm.rank == 0 else ((4, "y"), (8, "x")):
                data, name = (np.ones(size), "z") if differs == "size" else (np.ones(8), name)
                if comm.rank == 0:
                    comm.send_async(data, 1, engine=engine, name=name)  # who sends
                else:
                    comm.recv_async(0, out=data, engine=engine, name=name)  # who receives
            comm.barrier_async(engine=engine)
            with pytest.raises(MismatchError) as caught:
                engine.wait(deadline=20)
        return str(caught.value)

    with World.joined(2, links) as world:
        one, other = world.run(rank)
    assert one == other
    sends, receives = one.split(", but ")
    bytes_sent, bytes_received = (64, 32) if differs == "size" else (64, 64)
    assert f"rank 0 makes send to rank 1 of {bytes_sent} bytes of float64" in sends
    assert line_of("who sends") in sends
    assert f"rank 1 makes recv from rank 0 of {bytes_received} bytes of float64" in receives
    assert line_of("who receives") in receives
    if differs == "name":
        assert "for x" in sends
        assert "for y" in receives


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("links", ["auto", "staged", "tcp"])
@pytest.mark.parametrize("size", [8, 1_000_000])
def test_a_send_among_collectives_in_another_order_names_the_first_divergent_push(size: int, links: str) -> None:
    def rank(comm: Communicator) -> tuple[str, float]:
        x, y = np.ones(size), np.ones(size)
        with Engine(2) as engine:
            comm.barrier_async(engine=engine)
            if comm.rank == 0:
                comm.send_async(y, 1, engine=engine, read=[engine.tag(y)])  # push of the send
                comm.allreduce_async(x, engine=engine, read=[engine.tag(x)])
            else:
                comm.allreduce_async(x, engine=engine, read=[engine.tag(x)])  # push of the allreduce
                comm.recv_async(0, out=y, engine=engine, mutate=[engine.tag(y)])
            comm.barrier_async(engine=engine)
            with pytest.raises(MismatchError) as caught:
                engine.wait(deadline=20)
            engine.restore(comm, x, y)
            return str(caught.value), float(comm.allreduce_async([1.5], engine=engine).wait(20)[0])

    with World.joined(2, links) as world:
        one, other = world.run(rank)
    assert one == other
    text, after = one
    assert after == 3.0
    zero_makes, one_makes = text.split(", but ")
    assert "rank 0 makes send to rank 1" in zero_makes
    assert line_of("push of the send") in zero_makes
    assert "rank 1 makes call 1, allreduce" in one_makes
    assert line_of("push of the allreduce") in one_makes


def test_names_of_operations_stand_for_those_of_variables() -> None:
    def rank(comm: Communicator) -> float:
        with Engine(1) as engine:
            own = engine.variable(f"of rank {comm.rank}")
            return float(comm.allreduce_async(np.ones(3), engine=engine, mutate=[own], name="gradient").wait(20)[0])

    with World(2) as world:
        assert world.run(rank) == [2.0, 2.0]


@pytest.mark.usefixtures("patient")
def test_a_lost_rank_fails_what_depends_on_its_calls_and_nothing_else() -> None:
    def job() -> str:
        comm = unisono.init(deadline=20)
        if comm.rank == 2:
            time.sleep(0.2)
            return ""  # and so it ends
        with Engine(2) as engine:
            A, B = engine.variable("A"), engine.variable("B")
            comm.allreduce_async(np.ones(3), engine=engine, mutate=[A])
            dependent = engine.push(lambda: "computed", read=[A])
            other = engine.push(lambda: "computed", mutate=[B])
            with pytest.raises(PeerLost, match="lost rank 2") as caught:
                dependent.wait(20)
            assert other.wait(20) == "computed"
            assert any(HERE in note for note in caught.value.__notes__)
        return str(caught.value)

    zero, one, _ = unisono.launch(job, 3, timeout=60)
    assert zero == one
    assert "lost rank 2" in zero
