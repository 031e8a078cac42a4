"""A lab as an object: up, run, counters, down."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import ConfigError
from . import state
from .build import Build
from .host import Host, end_all
from .plan import make_plan
from .requirements import need_capabilities, need_iproute2
from .state import Layout


class Lab:
    """Hosts on this machine, connected by links of a given rate.

    ``with Lab(hosts=4, rate="1gbit", rates={"host3": "100mbit"}) as lab:`` makes them and takes them down. They end
    with this process too, however it ends. Directories below /tmp that hosts are to see are named in ``share``; they
    see the working directory, this Python and all that is not in /tmp or /dev/shm anyway.
    """

    def __init__(
        self,
        hosts: int = 2,
        rate: str | None = None,
        *,
        rates: Mapping[str, str] | None = None,
        share: Iterable[Path | str] = (),
        name: str | None = None,
    ) -> None:
        self._plan = make_plan(name or f"lab-{secrets.token_hex(6)}", hosts, rate, rates, share)
        self._build = Build(self._plan)
        self._layout: Layout | None = None

    @property
    def name(self) -> str:
        return self._plan.name

    @property
    def hosts(self) -> list[Host]:
        """The hosts by number; their addresses, rates and the process that keeps each."""
        return self._standing().hosts

    def up(self) -> Self:
        """Make it; what is left of a broken lab of that name is removed before."""
        need_capabilities()
        need_iproute2()
        remains = state.load(self.name)
        if remains and remains.whole:
            raise ConfigError(f"lab {self.name!r} is up already; take it down with unisono lab down, or --name another")
        take_down(self.name)
        state.sweep()
        self._layout = self._build.make()
        return self

    def stay(self) -> None:
        """Let it outlive this process; unisono lab down, or ``take_down``, ends it."""
        self._build.let_stay()

    def down(self) -> None:
        """Take it down, with all processes that run in it."""
        if self._layout:
            take_down(self.name)
            self._build.end()
            self._layout = None

    def __enter__(self) -> Self:
        return self.up()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.down()

    def run(self, *words: object, ranks: int, timeout: float, **options: Any) -> subprocess.CompletedProcess[str]:
        """A script and its arguments as ranks on the hosts, as ``unisono lab run`` does; what they printed.

        `options` are those of ``subprocess.run``.
        """
        given = {"capture_output": True, "text": True, **options}
        return subprocess.run(self.command(*words, ranks=ranks), timeout=timeout, **given)

    def command(self, *words: object, ranks: int) -> list[str]:
        """The command that ``run`` runs."""
        return [sys.executable, "-m", "unisono.lab", self._standing().name, str(ranks), *map(str, words)]

    def bytes_sent(self) -> list[int]:
        """By host, all that has left by its interface since the lab is up, with headers."""
        return [host.counters[0] for host in self.hosts]

    def bytes_received(self) -> list[int]:
        """By host, all that has come in by its interface since the lab is up, with headers."""
        return [host.counters[1] for host in self.hosts]

    def _standing(self) -> Layout:
        if self._layout is None:
            raise ConfigError(f"lab {self.name!r} is not up: use it in a with statement, or call up() before")
        return self._layout


def take_down(name: str) -> bool:
    """End a lab, or what is left of it, and forget it; whether there was any."""
    need_capabilities()
    layout = state.load(name)
    if layout:
        end_all(layout.holders)
    return state.forget(name)
