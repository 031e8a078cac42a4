"""A rank that has closed its communicator, and lives on, is not waited for; one that made the call is not missed."""

import re
import time
from pathlib import Path

import numpy as np
import pytest
from tests.launcher.processes import eventually

import unisono
from unisono.errors import PeerLost

pytestmark = pytest.mark.usefixtures("patient")


def stay_until(told: Path, *ranks: int) -> None:
    """Who has closed lives on, so that it is not its end that the others hear of."""
    assert eventually(lambda: all((told / str(rank)).exists() for rank in ranks))


@pytest.mark.parametrize("links", ["auto", "tcp"])
@pytest.mark.parametrize("departs", [0, 2])
def test_a_call_with_a_rank_that_has_closed_fails_in_seconds_though_its_process_lives(
    departs: int, links: str, tmp_path: Path
) -> None:
    def job() -> str:
        comm = unisono.init(links=links)
        comm.barrier()
        if comm.rank == departs:
            comm.close()
            stay_until(tmp_path, *{0, 1, 2} - {departs})
            return ""
        with pytest.raises(PeerLost) as caught:
            comm.allreduce(np.ones(3))
        (tmp_path / str(comm.rank)).touch()
        return str(caught.value)

    found = unisono.launch(job, 3, timeout=60)
    told = [words for rank, words in enumerate(found) if rank != departs]
    assert all("allreduce" in words for words in told)
    why = [re.search(rf"lost rank {departs} .* it has closed its communicator", words) for words in told]
    # Where it was rank 0, nobody tells all others the same: who is late may hear that another one has given up.
    assert any(why) if departs == 0 else all(why)
    assert all("it has given up a call" in words for words, found in zip(told, why, strict=True) if not found)


def test_a_message_from_a_rank_that_has_closed_is_not_awaited(tmp_path: Path) -> None:
    def job() -> None:
        comm = unisono.init()
        comm.barrier()
        if comm.rank == 1:
            comm.close()
            stay_until(tmp_path, 2)
        elif comm.rank == 0:
            stay_until(tmp_path, 2)  # it has heard of that, and passes it on
        else:
            with pytest.raises(PeerLost, match=r"rank 1 .* it has closed its communicator"):
                comm.recv(1, out=np.ones(3))
            (tmp_path / "2").touch()

    unisono.launch(job, 3, timeout=60)


@pytest.mark.parametrize("links", ["auto", "tcp"])
def test_who_closes_after_its_part_of_a_call_is_not_missed_by_those_who_are_still_in_it(links: str) -> None:
    def job() -> float:
        comm = unisono.init(links=links)
        comm.barrier()
        if comm.rank == 1:
            time.sleep(3)
        total = comm.reduce(np.ones(3), 0)
        if comm.rank == 2:
            comm.send(np.ones(1), 0)  # which has no number among the calls of all ranks
        if comm.rank == 0:
            comm.recv(2, out=np.ones(1))
        comm.close()
        return float(total[0]) if comm.rank == 0 else 0.0

    assert unisono.launch(job, 3, timeout=60)[0] == 3
