"""What a lab is to be, before anything is made."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from ..errors import ConfigError
from .holder import OWN_DIRECTORIES
from .rates import parse_rate

MOST_HOSTS = 64


@dataclass(frozen=True)
class Plan:
    """A name, a rate for each host, and the directories that its hosts see although they lie in /tmp."""

    name: str
    rates: tuple[int | None, ...]  # bits per second; None: as fast as the machine
    shared: tuple[str, ...]

    @property
    def host_names(self) -> list[str]:
        return host_names(len(self.rates))


def make_plan(
    name: str,
    hosts: int,
    rate: str | None = None,
    rates: Mapping[str, str] | None = None,
    share: Iterable[Path | str] = (),
) -> Plan:
    """A plan from what the user wrote; what makes no sense is refused."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,31}", name, re.ASCII):
        raise ConfigError(f"{name!r} cannot be the name of a lab: write up to 32 letters, digits, dots and dashes")
    if not 1 <= hosts <= MOST_HOSTS:
        nearest = min(max(hosts, 1), MOST_HOSTS)
        raise ConfigError(f"--hosts {hosts}: a lab has 1 to {MOST_HOSTS} hosts; the nearest is {nearest}")
    names = host_names(hosts)
    by_host = dict.fromkeys(names, None if rate is None else parse_rate(rate))
    for host, text in (rates or {}).items():
        if host not in by_host:
            near = get_close_matches(host, names, n=1, cutoff=0)
            raise ConfigError(f"there is no {host!r} to give a rate of {text}; did you mean {near[0]!r}?")
        by_host[host] = parse_rate(text)
    return Plan(name, tuple(by_host.values()), _shared(share))


def host_names(count: int) -> list[str]:
    return [f"host{number}" for number in range(count)]


def split_rates(texts: Iterable[str]) -> tuple[str | None, dict[str, str]]:
    """The rate of all hosts and those of single ones, from 1gbit and host3=100mbit."""
    of_all: list[str] = []
    of_one: dict[str, str] = {}
    for text in texts:
        host, equals, rate = text.partition("=")
        if not equals:
            of_all.append(text)
        elif host in of_one:
            raise ConfigError(f"--rate {text}: {host} has a rate of {of_one[host]} already; give one for each host")
        else:
            of_one[host] = rate
    if len(of_all) > 1:
        raise ConfigError(f"--rate {of_all[1]}: all hosts have a rate of {of_all[0]} already; for one, write host0=…")
    return (of_all[0] if of_all else None), of_one


def _shared(wanted: Iterable[Path | str]) -> tuple[str, ...]:
    """What the user names, and what a rank cannot run without: this Python, this package, the working directory."""
    named = [Path(path).resolve() for path in wanted]
    for path in named:
        if not path.is_dir():
            raise ConfigError(f"--share {path}: there is no such directory")
        if str(path) in OWN_DIRECTORIES:
            raise ConfigError(f"--share {path}: every host has its own; share a directory in it")
    needed = [Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[2], Path.cwd()]
    found = [path for path in named + [path.resolve() for path in needed] if _hidden(path)]
    return tuple(sorted({str(path) for path in found if not any(other in path.parents for other in found)}))


def _hidden(path: Path) -> bool:
    return any(Path(directory) in path.parents for directory in OWN_DIRECTORIES)
