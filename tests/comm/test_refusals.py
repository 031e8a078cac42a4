"""Arguments that make no sense: every rank gets an error that says what would, nothing was sent, and calls go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.comm.world import World

import unisono
from unisono.comm.communicator import Communicator
from unisono.errors import ConfigError

X = np.arange(4.0)
NO_RANK = [-1, 2, 10**30, 1.0, np.float64(1), "0", None, True, np.True_, [0]]
NO_DEADLINE = [0, -1, float("nan"), float("inf"), "5", True, [1], 1j]
NO_OPERATOR = ["summ", "SUM", "mean", "", None, 3, [], np.add, print, len]
NO_COUNTS = [[1, 2], [4], [2, 2, 0], [5, -1], [1.5, 2.5], [True, 3], ["2", 2], 4, "22", None, [[2], [2]]]
Refused = Callable[[Communicator, Any], Any]


def refused_everywhere(call: Refused, argument: Any, message: str = "") -> None:
    def one_rank(comm: Communicator) -> list[int]:
        before = comm.stats()["calls"], X.tolist()
        with pytest.raises(ConfigError, match=message):
            call(comm, argument)
        assert (comm.stats()["calls"], X.tolist()) == before
        return comm.allreduce([1])

    with World(2, deadline=10) as world:
        assert world.run(one_rank) == [[2], [2]]


ROOTED: dict[str, Refused] = {
    "broadcast": lambda comm, root: comm.broadcast(X, root),
    "reduce": lambda comm, root: comm.reduce(X, root),
    "gather": lambda comm, root: comm.gather(X, root),
    "gatherv": lambda comm, root: comm.gatherv(X, root),
    "scatter": lambda comm, root: comm.scatter(X, root, out=np.empty(2)),
    "scatterv": lambda comm, root: comm.scatterv(X, [2, 2], root, out=np.empty(2)),
    "send": lambda comm, root: comm.send(X, root),
    "recv": lambda comm, root: comm.recv(root, out=X),
    "sendrecv": lambda comm, root: comm.sendrecv(X, 1 - comm.rank, root),
}


@pytest.mark.parametrize("name", ROOTED)
@pytest.mark.parametrize("rank", NO_RANK, ids=repr)
def test_a_rank_is_a_whole_number_that_exists(name: str, rank: Any) -> None:
    refused_everywhere(ROOTED[name], rank, "(root|rank) .*(whole number|out of range: 2 ranks are numbered 0 to 1)")


@pytest.mark.parametrize("rank", [np.int64(1), np.uint8(1), np.array(1)], ids=repr)
def test_numpys_whole_numbers_are_ranks_and_mean_the_same_as_pythons(rank: Any) -> None:
    with World(2) as world:
        for x in world.run(lambda comm: comm.broadcast(np.array([comm.rank]), rank if comm.rank else 1)):
            assert x.tolist() == [1]


TIMED: dict[str, Refused] = {
    "allreduce": lambda comm, deadline: comm.allreduce(X, deadline=deadline),
    "scaled in place": lambda comm, deadline: comm.allreduce(X, unisono.premultiplied_sum(2), out=X, deadline=deadline),
    "allgatherv": lambda comm, deadline: comm.allgatherv(X, deadline=deadline),
    "alltoallv": lambda comm, deadline: comm.alltoallv(X, [2, 2], deadline=deadline),
    "barrier": lambda comm, deadline: comm.barrier(deadline=deadline),
    "send": lambda comm, deadline: comm.send(X, 1 - comm.rank, deadline=deadline),
    "a started call": lambda comm, deadline: comm.start("barrier", deadline=deadline).wait(),
}


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("deadline", NO_DEADLINE, ids=repr)
def test_a_deadline_is_a_time_that_ends(name: str, deadline: Any) -> None:
    refused_everywhere(TIMED[name], deadline, "deadline")


def test_a_deadline_may_be_a_whole_number_or_numpys_or_longer_than_a_life() -> None:
    with World(2) as world:
        for deadline in (5, np.float32(5), np.int64(5), 1e300, 10**12):
            world.run(lambda comm, deadline=deadline: comm.barrier(deadline=deadline))


@pytest.mark.parametrize("op", NO_OPERATOR, ids=repr)
@pytest.mark.parametrize("name", ["allreduce", "reduce", "scan", "reduce_scatter"])
def test_an_operator_is_one_of_those_there_are(name: str, op: Any) -> None:
    refused_everywhere(lambda comm, op: getattr(comm, name)(X, op=op), op, "no operator .*sum, prod, min")


def test_pythons_own_operators_mean_the_same_as_their_names() -> None:
    with World(2) as world:
        for name, function in (("sum", sum), ("min", min), ("max", max)):
            results = world.run(lambda comm, pair=(name, function): comm.allreduce([comm.rank + 1], op=pair[comm.rank]))
            assert results == [[function([1, 2])]] * 2
    refused_everywhere(lambda comm, op: comm.allreduce(X, op), "summ", "did you mean 'sum'")


@pytest.mark.parametrize("factor", ["2", None, True, 1j])
def test_a_factor_is_a_number(factor: Any) -> None:
    with pytest.raises(ConfigError, match="factor of a premultiplied sum is a number"):
        unisono.premultiplied_sum(factor)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rnig", "did you mean 'ring'"),
        ("", "there are: flat, mst"),
        (3, "algorithm is a name"),
        (["ring"], "algorithm is a name"),
        ("dedicated_servers", "leaves 1 of 2 ranks out"),
    ],
)
def test_an_algorithm_is_one_in_which_every_rank_takes_part(name: Any, message: str) -> None:
    refused_everywhere(lambda comm, name: comm.allreduce(X, algorithm=name), name, message)
    refused_everywhere(
        lambda comm, name: comm.allreduce(X, unisono.premultiplied_sum(2), out=X, algorithm=name), name, message
    )


@pytest.mark.parametrize("counts", NO_COUNTS, ids=repr)
def test_counts_are_whole_numbers_of_rows_that_add_up(counts: Any) -> None:
    message = "counts has a number of rows for each of 2 ranks, together 4|count of rows is a whole number"
    refused_everywhere(lambda comm, counts: comm.alltoallv(X, counts), counts, message)
    if counts is not None:
        refused_everywhere(lambda comm, counts: comm.reduce_scatter(X, counts=counts), counts, message)


def test_what_cannot_be_cut_is_refused_with_the_call_that_can() -> None:
    for name in ("reduce_scatter", "alltoall"):
        for x in (np.ones(3), 1.0):
            refused_everywhere(lambda comm, x, name=name: getattr(comm, name)(x), x, "equal parts .*counts=")
    for name in ("allgatherv", "gatherv"):
        refused_everywhere(lambda comm, x, name=name: getattr(comm, name)(x), 1.0, "no rows")


@pytest.mark.parametrize(("color", "key"), [(-1, 0), ("a", 0), (1.5, 0), (True, 0), (2**63, 0), (0, "k"), (0, 2**63)])
def test_a_color_and_a_key_are_whole_numbers(color: Any, key: Any) -> None:
    refused_everywhere(lambda comm, pair: comm.split(*pair), (color, key), "color|key")


@pytest.mark.parametrize(
    "name", ["close", "start", "stats", "_run", "__init__", "rank", "everything", 3, None, ["barrier"]]
)
def test_only_calls_can_be_started(name: Any) -> None:
    refused_everywhere(lambda comm, name: comm.start(name), name, "no call .* to start")
