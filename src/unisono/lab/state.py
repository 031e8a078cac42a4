"""The labs that are up: a file for each, from which other commands learn what it consists of."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path

from ..errors import ConfigError
from .host import Holder, Host

DIRECTORY = Path("/run/unisono-lab")


@dataclass(frozen=True)
class Layout:
    """What a lab consists of: a switch, and the hosts that are connected to it."""

    name: str
    switch: Holder
    hosts: list[Host]

    @property
    def holders(self) -> list[Holder]:
        return [*self.hosts, self.switch]

    @property
    def whole(self) -> bool:
        return all(holder.alive for holder in self.holders)


def save(layout: Layout) -> None:
    """For others to find; refused if there is a file of that name.

    Written after the lab is made and before its processes may outlive their maker: so no process is ever left that no
    file knows, and a file may at worst know processes that have ended.
    """
    try:
        DIRECTORY.mkdir(mode=0o700, exist_ok=True)  # who writes here says which processes we kill
        with _file(layout.name).open("x") as file:
            file.write(json.dumps(asdict(layout)))
    except FileExistsError:
        raise ConfigError(f"lab {layout.name!r} was made by somebody else at the same time") from None
    except OSError as error:
        raise ConfigError(f"cannot write {_file(layout.name)}: {error.strerror}") from error


def load(name: str) -> Layout | None:
    """The lab of that name; None if there is none, or its file is of one that did not get far enough to last."""
    try:
        fields = json.loads(_file(name).read_text())
        hosts = [Host(**host) for host in fields["hosts"]]
        return Layout(fields["name"], Holder(**fields["switch"]), hosts)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def forget(name: str) -> bool:
    """Whether there was anything to forget."""
    try:
        _file(name).unlink()
    except FileNotFoundError:
        return False
    return True


def sweep() -> None:
    """Forget labs of which nothing is left: those of processes that were killed before they could."""
    for name in names():
        layout = load(name)
        if layout and not any(holder.alive for holder in layout.holders):
            forget(name)


def find(name: str) -> Layout:
    """The lab of that name, with all its hosts; an error that says what to do if there is none."""
    layout = load(name)
    if layout is None:
        near = get_close_matches(name, names(), n=1, cutoff=0)
        hint = f"did you mean {near[0]!r}?" if near else "make it with unisono lab up --hosts 4"
        raise ConfigError(f"there is no lab {name!r}; {hint}")
    for holder in layout.holders:
        if not holder.alive:
            raise ConfigError(
                f"lab {name!r} is broken: {holder.name} is gone, as the process that kept it, {holder.pid}, has ended; "
                "write unisono lab down, and up again"
            )
    return layout


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.json"))


def _file(name: str) -> Path:
    return DIRECTORY / f"{name}.json"
