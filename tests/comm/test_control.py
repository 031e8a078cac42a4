"""The star through rank 0: small messages, and one cause of failure for all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from unisono.comm.control import Control
from unisono.comm.frames import Channel
from unisono.errors import ConfigError, DeadlineExceeded, MismatchError, PeerLost, UnisonoError

SIZE = 4
NAMES = [f"rank {rank} (host h{rank}, pid {rank})" for rank in range(SIZE)]


@pytest.fixture
def star() -> Iterator[list[Control]]:
    pairs = {rank: socket.socketpair() for rank in range(1, SIZE)}
    controls = [Control(0, NAMES, {rank: Channel(pair[0]) for rank, pair in pairs.items()})]
    controls += [Control(rank, NAMES, {0: Channel(pair[1])}) for rank, pair in pairs.items()]
    for control in controls:
        for channel in control.channels.values():
            channel.trusted = True
    yield controls
    for control in controls:
        control.close()


def on_all(star: list[Control], work: Callable[[Control], Any]) -> list[Any]:
    """What each rank returns or raises."""

    def attempt(control: Control) -> Any:
        try:
            return work(control)
        except UnisonoError as error:
            return error

    with ThreadPoolExecutor(SIZE) as pool:
        return list(pool.map(attempt, star))


def test_an_exchange_gives_every_rank_the_values_of_all(star: list[Control]) -> None:
    values = [None, {"a": [1, "α"]}, 3.5, "x" * 100_000]
    for _ in range(3):
        assert on_all(star, lambda control: control.exchange(values[control.rank], deadline=30)) == [values] * SIZE


def test_a_rank_alone_exchanges_with_itself() -> None:
    assert Control(0, ["rank 0"], {}).exchange("x") == ["x"]


def test_rank_0_and_another_send_each_other_messages(star: list[Control]) -> None:
    star[0].send({"n": 1}, to=2)
    star[0].send({"n": 2}, to=2)
    assert [star[2].receive(deadline=30), star[2].receive(deadline=30)] == [{"n": 1}, {"n": 2}]
    star[2].send([None])
    assert star[0].receive(source=2, deadline=30) == [None]


def test_who_does_not_come_to_an_exchange_is_named_on_every_rank(star: list[Control]) -> None:
    def work(control: Control) -> Any:
        return control.exchange(1, deadline=4 if control.rank == 0 else 30) if control.rank != 2 else None

    results = on_all(star, work)
    for rank in (0, 1, 3):
        assert isinstance(results[rank], DeadlineExceeded)
        assert str(results[rank]) == f"{NAMES[0]} waited 4 s for {NAMES[2]} to come to an exchange"
    with pytest.raises(DeadlineExceeded):  # also by who comes later
        star[2].exchange(1, deadline=30)


@pytest.mark.parametrize("how", ["death", "goodbye"])
def test_a_rank_that_is_gone_is_named_on_every_rank(star: list[Control], how: str) -> None:
    if how == "death":
        star[3].channels[0].close()
    else:
        star[3].close()
    results = on_all(star[:3], lambda control: control.exchange(1, deadline=30))
    why = "connection closed" if how == "death" else "it closed its communicator"
    assert [str(error) for error in results] == [f"{NAMES[0]} lost {NAMES[3]}: {why}"] * 3
    assert {type(error) for error in results} == {PeerLost}


def test_the_first_cause_is_raised_again_by_every_later_call(star: list[Control]) -> None:
    star[1].abort(ConfigError("rank 1 has enough"))
    results = on_all(star, lambda control: control.exchange(1, deadline=30))
    assert [str(error) for error in results] == ["rank 1 has enough"] * SIZE
    assert {type(error) for error in results} == {ConfigError}
    for control in star:
        with pytest.raises(ConfigError, match="rank 1 has enough"):
            control.exchange(1)


def test_ranks_that_do_different_things_are_told(star: list[Control]) -> None:
    def work(control: Control) -> Any:
        if control.rank == 1:
            control.send("hello")
        return control.exchange(1, deadline=30)

    results = on_all(star, work)
    assert {type(error) for error in results} == {MismatchError}
    assert str(results[3]) == f"{NAMES[0]} is in exchange #0, {NAMES[1]} in a message"


def test_what_is_not_json_is_refused(star: list[Control]) -> None:
    with pytest.raises(ConfigError, match="JSON"):
        star[0].send({1, 2}, to=1)


def test_a_closed_control_says_so_and_leaves_no_thread(star: list[Control]) -> None:
    before = set(threading.enumerate())
    star[0].close()
    star[0].close()
    with pytest.raises(UnisonoError, match="closed"):
        star[0].exchange(1)
    assert set(threading.enumerate()) <= before


def test_telling_of_a_failure_does_not_wait_for_who_does_not_listen(star: list[Control]) -> None:
    channel = star[0].channels[1]
    while True:  # fill its buffer
        try:
            channel.sock.send(b"x" * 65536)
        except BlockingIOError:
            break
    began = time.monotonic()
    star[0].abort(PeerLost("gone"))
    assert time.monotonic() - began < 20
    with pytest.raises(PeerLost, match="gone"):
        star[2].receive(deadline=30)
