"""The ranks of a case as processes: forked, on this host or in a lab, watched until all have ended."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.comm.oracle import call
from tests.comm.processes import KEY, free_port
from tests.failure.cases import CALL, Case

import unisono
from unisono.errors import UnisonoError
from unisono.lab import Lab
from unisono.lab.places import Places

PATIENCE = 120.0  # for all to end: far more than any of them should take
VARIABLES = {"direct": "auto", "staged": "staged", "tcp": "tcp", "lab": "auto"}


@dataclass
class Outcome:
    """How one rank ended."""

    status: int  # as of waitpid
    ended: float  # on the clock of time.monotonic()
    report: dict[str, Any] | None  # what it said itself


def play(case: Case, lab: Lab | None) -> dict[int, Outcome] | str:
    """All ranks; or who hung, after everybody was killed."""
    with hosts_of(case, lab) as places:
        where = f"{lab.hosts[0].address if lab else '127.0.0.1'}:{free_port()}"
        ranks = {rank: _Rank(case, rank, where, places) for rank in range(case.p)}
        try:
            return _watch(case, ranks)
        finally:
            for rank in ranks.values():
                rank.remove()


def hosts_of(case: Case, lab: Lab | None) -> AbstractContextManager[Places | None]:
    """Two ranks on a host, as far as there are hosts."""
    if lab is None:
        return nullcontext()
    return Places([lab.hosts[rank // 2 % len(lab.hosts)] for rank in range(case.p)])


class _Rank:
    def __init__(self, case: Case, rank: int, where: str, places: Places | None) -> None:
        self._reader, writer = os.pipe()
        self.ended: float | None = None
        self.status = 0
        self._text = b""
        move_in: Callable[[], None]
        with places.starting(rank) if places else nullcontext(lambda: None) as move_in:
            self.pid = os.fork()
            if self.pid == 0:
                _be(case, rank, where, move_in, writer)
        os.close(writer)
        self._pidfd = os.pidfd_open(self.pid)

    def look(self) -> bool:
        """Has it ended?"""
        if self.ended is None and select.select([self._pidfd], [], [], 0)[0]:
            self.ended = time.monotonic()
            self.status = os.waitpid(self.pid, 0)[1]
            while part := os.read(self._reader, 1 << 16):
                self._text += part
        return self.ended is not None

    def outcome(self) -> Outcome:
        assert self.ended is not None
        return Outcome(self.status, self.ended, json.loads(self._text) if self._text else None)

    def remove(self) -> None:
        if self.ended is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._pidfd)
        os.close(self._reader)


def _watch(case: Case, ranks: dict[int, _Rank]) -> dict[int, Outcome] | str:
    """A rank that was stopped is continued when the others have ended, and has to end, too."""
    until = time.monotonic() + PATIENCE
    while missing := [number for number, rank in ranks.items() if not rank.look()]:
        if time.monotonic() > until:
            return f"{case}: {missing} did not end"
        if case.action == "stall" and missing == [case.victim]:
            os.kill(ranks[case.victim].pid, signal.SIGCONT)
        time.sleep(0.002)
    return {number: rank.outcome() for number, rank in ranks.items()}


def _be(case: Case, rank: int, where: str, move_in: Callable[[], None], report: int) -> None:
    """This process is that rank, and ends here."""
    status = 1
    try:
        move_in()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)  # where injections are told
        told = _live(case, rank, where)
        os.write(report, json.dumps(told).encode())
        status = 0
    except BaseException as error:
        with suppress(OSError):
            os.write(report, json.dumps({"crash": f"{type(error).__name__}: {error}"}).encode())
    finally:
        sys.stdout.flush()
        os._exit(status)


def _live(case: Case, rank: int, where: str) -> dict[str, Any]:
    comm = unisono.init(
        rank=rank,
        size=case.p,
        rendezvous=where,
        key=KEY,
        links=VARIABLES[case.links],
        inject=case.inject,
        deadline=case.deadline,
    )
    x = comm.empty(case.rows, np.float64) if case.lent else np.empty(case.rows)
    x[:] = rank + 1
    root = rank_of_root(case)
    made = 0
    began = time.monotonic()
    try:
        while made < CALL + 5:
            began = time.monotonic()
            _call(comm, case, x, root)
            made += 1
        for _ in range(2):
            # Who only sends has not noticed anything yet. And who stood still may find all that the others have sent in
            # these calls and in a barrier, but not in one more.
            began = time.monotonic()
            comm.barrier()
    except UnisonoError as error:
        first = _facts(error, made, began)
        again = time.monotonic()
        with suppress(UnisonoError):  # what was lost is lost
            comm.barrier(deadline=5)
            first["went_on"] = True
        first["again"] = time.monotonic() - again
        comm.close()
        return first
    comm.close()
    return {"error": None}


def rank_of_root(case: Case) -> int:
    return case.round % case.p


def _call(comm: Any, case: Case, x: np.ndarray, root: int) -> None:
    if not case.started:
        call(comm, case.collective, x, root, algorithm=case.algorithm)
        return
    arguments: list[Any] = {
        "barrier": [],
        "broadcast": [x, root],
        "scatter": [x if comm.rank == root else None, root],
        "reduce": [x, root],
        "gather": [x, root],
    }.get(case.collective, [x])
    options: dict[str, Any] = {"algorithm": case.algorithm}
    if case.collective == "scatter":
        options["out"] = np.empty(len(x) // comm.size)
    comm.start(case.collective, *arguments, **options).wait()


def _facts(error: UnisonoError, made: int, began: float) -> dict[str, Any]:
    return {
        "error": type(error).__name__,
        "text": str(error),
        "ranks": list(error.ranks),
        "call": made,
        "began": began,
        "when": time.monotonic(),
        "went_on": False,
    }
