"""Calls of two ranks among calls of all: another order on another rank is told with both lines; the same one works."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.comm.world import World

from unisono.comm.communicator import Communicator
from unisono.comm.divergence import crossed, unknown_message
from unisono.comm.incident import Message, Status
from unisono.errors import MismatchError

HERE = "test_call_order.py"
SMALL, LARGE = 3, 1_000_000  # elements: one fits into any link, the other into none
Step = Callable[[Communicator, int], Any]

pytestmark = pytest.mark.usefixtures("patient")


def send(comm: Communicator, n: int) -> None:
    comm.send(np.ones(n), 1 - comm.rank)  # line of send


def receive(comm: Communicator, n: int) -> None:
    comm.recv(1 - comm.rank, out=np.zeros(n))  # line of receive


def exchange(comm: Communicator, n: int) -> None:
    comm.sendrecv(np.ones(n), 1 - comm.rank, 1 - comm.rank)  # line of exchange


def reduce_all(comm: Communicator, n: int) -> None:
    comm.allreduce(np.ones(n))  # line of reduce_all


def from_two(comm: Communicator, n: int) -> None:
    comm.broadcast(np.ones(n), 2)  # line of from_two


DIVERGENT: dict[str, tuple[list[Step], list[Step], Step, Step]] = {  # rank 0, rank 1, and what differs first
    "send before": ([send, reduce_all], [reduce_all, receive], send, reduce_all),
    "send behind": ([reduce_all, send], [receive, reduce_all], reduce_all, receive),
    "receive before": ([receive, reduce_all], [reduce_all, send], receive, reduce_all),
    "exchange before": ([exchange, reduce_all], [reduce_all, exchange], exchange, reduce_all),
    "send twice": ([send, send, reduce_all], [receive, reduce_all, receive], send, reduce_all),
    "broadcast of another": ([send, from_two], [from_two, receive], send, from_two),
    "two receive": ([receive, send], [receive, send], receive, receive),
}


def told(comm: Communicator, steps: list[Step], n: int) -> str:
    """What a rank hears in one of these, or in the next call, if it has come that far."""
    try:
        for step in steps:
            step(comm, n)
        comm.barrier()
    except MismatchError as error:
        return str(error)
    raise AssertionError("nothing was raised")


def line_of(step: Step) -> str:
    with open(__file__) as source:
        return f"{HERE}:{next(i for i, line in enumerate(source, 1) if f'# line of {step.__name__}' in line)}"


@pytest.fixture(scope="module", params=["auto", "staged", "tcp"])
def three(request: pytest.FixtureRequest) -> Any:
    with World.joined(3, request.param, deadline=60) as world:
        yield world


@pytest.mark.parametrize("n", [SMALL, LARGE])
@pytest.mark.parametrize("what", DIVERGENT)
def test_another_order_is_told_with_both_lines_on_every_rank_and_all_go_on(what: str, n: int, three: World) -> None:
    zero, one, first, other = DIVERGENT[what]
    steps = {0: zero, 1: one, 2: [step for step in zero if step in (reduce_all, from_two)]}

    def rank(comm: Communicator) -> tuple[str, bool]:
        return told(comm, steps[comm.rank], n), comm.allreduce([1]) == [3]

    began = time.monotonic()
    answers = three.run(rank)
    assert time.monotonic() - began < 30, "half of the deadline"
    assert answers[0] == answers[1] == answers[2]
    text, goes_on = answers[0]
    assert goes_on
    zero_makes, one_makes = sorted(
        text.split("different calls: ")[1].split(", but "), key=lambda one: "rank 1 m" in one
    )
    assert "rank 0 makes " in zero_makes
    assert line_of(first) in zero_makes
    assert "rank 1 makes " in one_makes
    assert line_of(other) in one_makes


def test_two_ranks_that_send_to_each_other_more_than_links_hold_are_told(three: World) -> None:
    def rank(comm: Communicator) -> str:
        return told(comm, [send, receive] if comm.rank < 2 else [], 10 * LARGE)

    texts = three.run(rank)
    assert len(set(texts)) == 1
    assert texts[0].count(line_of(send)) == 2
    assert "each waits for the other" in texts[0]


def small_ones_wait_in_the_link(comm: Communicator) -> None:
    for _ in range(5):
        if comm.rank == 0:
            for i in range(3):
                comm.send([i], 1)
        elif comm.rank == 1:
            assert [comm.recv(0, out=np.zeros(1, int))[0] for _ in range(3)] == [0, 1, 2]
        comm.allreduce([1])


def both_send_first(comm: Communicator) -> None:
    if comm.rank < 2:
        send(comm, SMALL)
        receive(comm, SMALL)
    comm.barrier()


def a_ring(comm: Communicator) -> None:
    for _ in range(3):
        comm.send([comm.rank], (comm.rank + 1) % 3)
        assert comm.recv((comm.rank - 1) % 3, out=np.zeros(1, int))[0] == (comm.rank - 1) % 3
    comm.sendrecv(comm.rank, (comm.rank + 1) % 3, (comm.rank - 1) % 3)
    comm.barrier()


def who_receives_is_late(comm: Communicator) -> None:
    if comm.rank == 0:
        send(comm, LARGE)
    elif comm.rank == 1:
        time.sleep(2)
        receive(comm, LARGE)
    comm.allreduce(np.ones(LARGE))


def who_sends_is_late_and_others_wait_in_a_row(comm: Communicator) -> None:
    x = np.zeros(SMALL)
    if comm.rank == 2:
        time.sleep(2)
    else:
        comm.recv(comm.rank + 1, out=x)
    if comm.rank:
        comm.send(x, comm.rank - 1)
    comm.broadcast(x, 1)


def who_is_through_early_goes_on(comm: Communicator) -> None:
    if comm.rank == 1:
        time.sleep(2)
    comm.broadcast(np.ones(SMALL), 0, algorithm="flat")
    if comm.rank == 0:
        send(comm, LARGE)
    elif comm.rank == 1:
        receive(comm, LARGE)
    comm.barrier()


@pytest.mark.parametrize(
    "program",
    [
        small_ones_wait_in_the_link,
        both_send_first,
        a_ring,
        who_receives_is_late,
        who_sends_is_late_and_others_wait_in_a_row,
        who_is_through_early_goes_on,
    ],
)
def test_the_same_order_is_no_error_however_late_somebody_is(
    program: Callable[[Communicator], None], three: World
) -> None:
    three.run(program)
    assert three.run(lambda comm: comm.allreduce([1])) == [[3]] * 3


def test_numbers_that_were_read_one_after_the_other_accuse_nobody() -> None:
    waits = Status(in_call=True, of_all=4, sent=[0, 7], received=[0, 0], to=1)
    assert unknown_message({0: waits, 1: Status(of_all=5, sent=[0, 0], received=[7, 0])}) == Message(0, 1, 7)
    assert unknown_message({0: waits, 1: Status(of_all=5, sent=[0, 0], received=[5, 0])}) == Message(0, 1, 5)
    assert not unknown_message({0: waits, 1: Status(of_all=5, sent=[0, 0], received=[8, 0])}), "it came meanwhile"
    assert not unknown_message({0: waits, 1: Status(of_all=4, sent=[0, 0], received=[7, 0])}), "it may still come"
    assert not unknown_message({0: waits, 1: None})
    awaits = Status(in_call=True, of_all=4, sent=[0, 0], received=[0, 7], source=1)
    assert unknown_message({0: awaits, 1: Status(of_all=5, sent=[7, 0], received=[0, 0])}) == Message(1, 0, 7)
    assert not unknown_message({0: awaits, 1: Status(of_all=5, sent=[8, 0], received=[0, 0])}), "it is on its way"
    other = Status(in_call=True, of_all=4, sent=[7, 0], received=[0, 0], source=0)
    assert crossed({0: awaits, 1: other}) == [0, 1]
    assert not crossed({0: awaits, 1: Status(in_call=True, of_all=4, sent=[7, 0], received=[0, 0], source=0, to=0)})
