"""Runs a command as the ranks of a job, from the first process to the exit code."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO

from ..errors import ConfigError
from ..trace.ends import End
from .dumps import Dumps
from .ending import GRACE, Ending
from .interrupt import Interrupts
from .job import Job
from .meeting import Meeting
from .output import Pump, Screen
from .place import Here, Place
from .rank import Crew, Rank, describe_end, exit_code
from .servers import Server, Servers
from .verdicts import Verdicts

STREAMS = {"out": 1, "err": 2}
# Wrappers (timeout, uv, make) pass on a Ctrl-C that the terminal has already sent to everyone: that is one, not two.
SECONDS_OF_ONE_INTERRUPT = 0.2


def run_job(
    command: list[str],
    job: Job,
    *,
    grace: float = GRACE,
    log_dir: Path | None = None,
    tee: bool = False,
    verbose: bool = False,
    keep_going: bool = False,
    place: Place | None = None,
    servers: Servers | None = None,
) -> int:
    """The exit code of the first rank that fails, or 0. Ranks are started on this host, or at another place.
    A parameter server that ends before them is a failure, too.

    To keep going is to let the others go on without a rank that fails, and a success if one of them succeeds.
    """
    dumps = Dumps(job)
    screens = {stream: Screen(fd, labelled=not _bare(job, fd)) for stream, fd in STREAMS.items()}
    pump = Pump(screens["out"], screens["err"])
    with Interrupts() as interrupts, closing(Meeting(job)) as meeting, closing(Verdicts()) as verdicts:
        try:
            with Crew() as crew, closing(servers or Servers(0, 1)) as servers:
                place = place or Here()
                servers.start(meeting.job, crew, place)
                starter = _Starter(command, meeting, verdicts, dumps, crew, pump, log_dir, tee, verbose, place, servers)
                for local_rank in range(job.local_size):
                    starter.start(local_rank)
                pump.start()  # not earlier: a process with threads is not forked lightly
                if verbose:
                    pump.say(_summary(meeting.job, crew))
                watch = _Watch(crew, interrupts, pump, verdicts, grace, keep_going, servers, meeting.job, place)
                code = watch.until_all_have_ended()
                if code == 0 and job.nodes > 1:
                    servers.end_when_nobody_is_left(interrupts.arrived)
                servers.end()
        finally:
            pump.finish(impatient=lambda: bool(interrupts.take()))
    if code and (hint := dumps.hint()):
        dumps.add_ends(watch.ends())
        screens["err"].write(f"unisono: {hint}\n".encode())
    return code


def _bare(job: Job, fd: int) -> bool:
    """One rank on a terminal looks as if it had been started without us."""
    return job.size == 1 and os.isatty(fd)


def _summary(job: Job, crew: Crew) -> str:
    pids = ", ".join(f"{rank.number} (pid {rank.pid})" for rank in crew.ranks)
    return f"job {job.name}, rendezvous at {job.rendezvous}, started rank{'s' * (job.local_size > 1)} {pids}"


class _Starter:
    """Where each rank's streams lead, and its process."""

    def __init__(
        self,
        command: list[str],
        meeting: Meeting,
        verdicts: Verdicts,
        dumps: Dumps,
        crew: Crew,
        pump: Pump,
        log_dir: Path | None,
        tee: bool,
        verbose: bool,
        place: Place,
        servers: Servers,
    ) -> None:
        self._command = command
        self._job = meeting.job
        self._meeting = meeting
        self._verdicts = verdicts
        self._options = dumps.variables() | servers.variables() | ({"UNISONO_VERBOSE": "1"} if verbose else {})
        self._crew = crew
        self._pump = pump
        self._log_dir = log_dir
        self._tee = tee
        self._place = place

    def start(self, local_rank: int) -> None:
        number = self._job.rank(local_rank)
        more = {**self._options, **self._meeting.variables(), **self._verdicts.variables()}
        with ExitStack() as ours:  # closed when the rank has its copies
            try:
                streams = {stream: self._open(ours, number, stream) for stream in STREAMS}
                # preexec_fn, because prctl has to be called in the child before its program: a wrapper that calls it
                # would cost every rank a second start of Python. It is safe here: no thread of ours runs yet, and
                # the function was looked up before the fork.
                with self._place.starting(number) as prepare:
                    process = subprocess.Popen(
                        self._command,
                        stdin=None if number == 0 else subprocess.DEVNULL,
                        stdout=streams["out"],
                        stderr=streams["err"],
                        env=self._job.environment(local_rank, more),
                        process_group=0,
                        preexec_fn=prepare,
                        pass_fds=(*self._meeting.descriptors(), *self._verdicts.descriptors()),
                    )
            except OSError as error:
                what = str(error.filename or self._command[0])
                raise ConfigError(f"cannot start rank {number}: {error.strerror}: {what!r}") from error
            self._meeting.close()
            self._crew.add(number, process.pid, process.wait)

    def _open(self, ours: ExitStack, number: int, stream: str) -> int | None:
        """For the rank to write to: our own stream, a log, or a pipe to the pump."""
        log: BinaryIO | None = None
        if self._log_dir:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            log = (self._log_dir / f"rank-{number}.{stream}").open("wb")
            if number != 0 and not self._tee:
                return ours.enter_context(log).fileno()
        elif _bare(self._job, STREAMS[stream]):
            return None
        read, write = os.pipe()
        self._pump.add(number, stream, read, log)
        ours.callback(os.close, write)
        return write


class _Watch:
    """Waits for the ranks; after the first failure, or when told to, sees that all of them end. Or they keep going."""

    def __init__(
        self,
        crew: Crew,
        interrupts: Interrupts,
        pump: Pump,
        verdicts: Verdicts,
        grace: float,
        keep_going: bool,
        servers: Servers,
        job: Job,
        place: Place,
    ) -> None:
        self._crew = crew
        self._interrupts = interrupts
        self._pump = pump
        self._verdicts = verdicts
        self._ending = Ending(grace)
        self._keep_going = keep_going
        self._servers = servers
        self._job = job
        self._place = place
        self._outlived: list[Rank] = []  # the first failure
        self._failed: Rank | None = None  # the one to blame, as far as we know
        self._signalled: set[int] = set()  # by us: these ranks end because we want it
        self._told: signal.Signals | None = None
        self._told_at = 0.0

    def until_all_have_ended(self) -> int:
        with selectors.DefaultSelector() as selector:
            selector.register(self._interrupts.arrived, selectors.EVENT_READ)
            for rank in (*self._crew.ranks, *self._servers.running):
                selector.register(rank.ended, selectors.EVENT_READ, rank)
            while self._crew.running:
                ready = selector.select(self._ending.wait())
                ended = [key.data for key, _ in ready if key.data]
                for rank in ended:
                    selector.unregister(rank.ended)
                    rank.look()
                self._note_lost_servers([rank for rank in ended if isinstance(rank, Server)])
                self._note_failure([rank for rank in ended if not isinstance(rank, Server)])
                for number in self._interrupts.take():
                    self._pass_on(number)
                self._go_on_ending()
        return self._exit_code()

    def ends(self) -> list[End]:
        """How all of them ended."""
        return [End(rank.number, rank.returncode or 0, rank.number in self._signalled) for rank in self._crew.ranks]

    def _note_failure(self, ended: list[Rank]) -> None:
        failed = [rank for rank in ended if rank.returncode]
        if not failed or self._told or self._signalled:
            return
        if self._keep_going:
            return self._note_losses(ended)
        # Of those that we see together, one that was killed cannot have learned of another's failure.
        worst = min(failed, key=lambda rank: (self._verdicts.innocence(rank), (rank.returncode or 0) > 0))
        assert worst.returncode
        how = f"{worst} {describe_end(worst.returncode)}"
        if self._failed is None:
            because = ", having lost another" if self._verdicts.is_victim(worst) else ""
            others = f"; the others have {self._ending.grace:g} s to end" if self._crew.running else ""
            self._pump.say(f"{how}{because}{others}", after=worst.number)
            self._ending.begin()
        elif self._verdicts.innocence(worst) < self._verdicts.innocence(self._failed):
            self._pump.say(f"{how}, before the others did", after=worst.number)
        else:
            return
        self._failed = worst

    def _note_lost_servers(self, ended: list[Server]) -> None:
        """Nobody can go on without them; the first that we see is to blame."""
        if not ended or self._told or self._signalled:
            return
        server = min(ended, key=lambda server: server.returncode or 0)
        if self._failed is None or not isinstance(self._failed, Server):
            how = describe_end(server.returncode) if server.returncode else "ended"
            self._pump.say(f"{server} {how}; the ranks have {self._ending.grace:g} s to end")
            self._failed = server
        self._ending.begin()

    def _note_losses(self, ended: list[Rank]) -> None:
        """The ranks that are left go on. The one that they lost first is to blame if none of them succeeds."""
        failed = [rank for rank in ended if rank.returncode]
        if self._failed is None:
            self._failed = min(failed, key=self._verdicts.innocence)
            self._outlived = [*self._crew.running, *(rank for rank in ended if not rank.returncode)]
        others = "; the others go on" if self._crew.running else ""
        for rank in failed:
            because = ", having lost another" if self._verdicts.is_victim(rank) else ""
            self._pump.say(f"{rank} {describe_end(rank.returncode or 0)}{because}{others}", after=rank.number)
            if others:
                self._servers.tell_absence(self._job, self._crew, self._place, rank.number)

    def _pass_on(self, number: signal.Signals) -> None:
        now = time.monotonic()
        if self._told is None:
            self._told, self._told_at = number, now
            self._pump.say(f"{number.name}: the ranks have {self._ending.grace:g} s to end; Ctrl-C kills them now")
            self._crew.signal(signal.SIGINT)
            self._ending.begin()
        elif number == signal.SIGINT and now - self._told_at > SECONDS_OF_ONE_INTERRUPT:
            self._ending.hurry()

    def _go_on_ending(self) -> None:
        running = self._crew.running
        number = self._ending.due()
        if number is None or not running:
            return
        names = ", ".join(str(rank.number) for rank in running)
        self._signalled.update(rank.number for rank in running)
        self._pump.say(f"rank{'s' * (len(running) > 1)} {names} did not end: {number.name}")
        for rank in running:
            rank.signal(number)

    def _exit_code(self) -> int:
        succeeded = sorted(rank.number for rank in self._outlived if rank.returncode == 0)
        if succeeded and not self._told:
            names = ", ".join(map(str, succeeded))
            self._pump.say(f"rank{'s' * (len(succeeded) > 1)} {names} went on to the end: this counts as a success")
            return 0
        if self._failed:
            return exit_code(self._failed.returncode or 1)
        if self._told and any(rank.returncode for rank in self._crew.ranks):
            return 128 + self._told
        return 0
