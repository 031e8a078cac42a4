"""``comm.shrink()``: those who are left find each other, agree on who they are, and go on as a new communicator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..config import Settings
from ..errors import ConfigError, UnisonoError
from .assembly import Assembly, Gone
from .census import Census
from .roster import Roster
from .testimony import Testimony

if TYPE_CHECKING:
    from ..trace.file import Track
    from .black_box import Witness
    from .communicator import Communicator
    from .refuge import Refuge
    from .rendezvous import Directory

FOR_THE_ABSENT = 0.75  # of the time that is left: to wait for who is not known to be lost
FOR_THE_LINKS = 0.5  # of what is left then, so that there can be another attempt
TOO_SHORT = 0.1  # seconds, for another attempt
BETWEEN_ATTEMPTS = 0.05


class Shrink:
    """Makes communicators of the ranks of one that are left. Its refuge belongs to that one."""

    def __init__(
        self,
        join: Callable[..., Communicator],
        settings: Settings,
        directory: Directory | None,
        refuge: Refuge | None,
        testimonies: Sequence[Testimony],
        track: Track | None,
        witness: Witness | None,
    ) -> None:
        self._join = join
        self._settings = settings
        self._directory = directory
        self._refuge = refuge
        self._testimonies = tuple(testimonies)  # about the communicators that this one is left of
        self._track, self._witness = track, witness
        self._one_at_a_time = threading.Lock()
        self._went_on = ""
        self._last: Testimony | None = None

    def __call__(self, gone: Gone, doubted: Set[int], seconds: float, *, allow_pickle: bool) -> Communicator:
        """For who calls `gone`, there is no call under way; `doubted` are those that a failure named."""
        with self._one_at_a_time:
            if self._directory is None:
                alone = replace(self._settings, verbose=False, trace=None)
                held = [testimony.hold() for testimony in self._testimonies]
                return self._join_holding(held, alone, allow_pickle=allow_pickle)
            refuge = self._open()
            try:
                return self._try_until(monotonic() + seconds, refuge, self._directory, gone, doubted, allow_pickle)
            except BaseException:
                refuge.shut()
                raise

    def _open(self) -> Refuge:
        assert self._directory is not None
        without = [card for card in self._directory.cards if not card.refuge]
        if without or self._refuge is None:
            raise ConfigError(
                f"{without[0]} found no free port in UNISONO_PORTS to keep for shrink(): allow two for each rank of a "
                "host, and as many again for each communicator that is split off"
            )
        if self._last:
            self._last.withdraw()
        try:
            self._refuge.open()
        except OSError as error:
            raise ConfigError(
                f"rank {self._settings.rank} cannot listen on port {self._refuge.port}: {error}"
            ) from error
        return self._refuge

    def _try_until(
        self, end: float, refuge: Refuge, directory: Directory, gone: Gone, doubted: Set[int], allow_pickle: bool
    ) -> Communicator:
        """Who is lost while they meet leads to another attempt, without it."""
        while True:
            census = Census(self._settings.rank, self._settings.size)
            census.doubt(doubted)
            assembly = Assembly(directory, census, refuge, gone, settings=self._settings, went_on=self._went_on)
            roster = assembly.hold(monotonic() + FOR_THE_ABSENT * (end - monotonic()), end)
            try:
                return self._go_on(roster, refuge, directory, end, allow_pickle)
            except UnisonoError:
                if end - monotonic() < TOO_SHORT:
                    raise
            finally:
                roster.close()
            time.sleep(BETWEEN_ATTEMPTS)

    def _go_on(
        self, roster: Roster, refuge: Refuge, directory: Directory, end: float, allow_pickle: bool
    ) -> Communicator:
        rank = self._settings.rank
        leads, alone = roster.members[0] == rank, len(roster.members) == 1
        settings = replace(
            self._settings,
            rank=roster.members.index(rank),
            size=len(roster.members),
            local_rank=None,
            rendezvous=roster.rendezvous,
            listener=refuge.listener() if leads and not alone else None,
            open=True,
            verbose=False,
            job=roster.job,
            trace=None,  # is written already
        )
        testimony = Testimony(refuge, directory.secret, self._settings)
        held = [testimony, *(other.hold() for other in self._testimonies)]
        comm = self._join_holding(
            held,
            settings,
            allow_pickle=allow_pickle,
            track=self._track.part(roster.job, roster.members) if self._track else None,
            witness=self._witness.part(roster.job, roster.members) if self._witness else None,
            witnesses=roster.witnesses(directory) if leads else (),
            seconds=FOR_THE_LINKS * (end - monotonic()),
        )
        testimony.begin(roster.members, roster.job)
        self._went_on, self._last = roster.job, testimony
        return comm

    def _join_holding(self, testimonies: list[Testimony], settings: Settings, **options: Any) -> Communicator:
        """The new communicator closes what is held for it, if there is one."""
        try:
            return self._join(settings, testimonies=testimonies, **options)
        except BaseException:
            for testimony in testimonies:
                testimony.close()
            raise
