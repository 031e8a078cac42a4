"""The ranks of a job agree on a model of the machine: the one that rank 0 has."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from ..config import Settings, cache_directory
from ..errors import ConfigError
from ..tune.model import Model
from ..tune.store import file_of, fingerprint, has_any, load, machine_facts
from .probe import probe_wire

if TYPE_CHECKING:
    from .wiring import Wiring


class Basis(NamedTuple):
    """What all ranks choose by: a model, and the cores that the smallest host has."""

    model: Model
    cores: int


def agree_on_model(settings: Settings, wiring: Wiring, *, seconds: float) -> Basis:
    """Everybody's machine, then rank 0's model for such machines. If none was ever made, the prices are defaults, and
    between hosts there is a look at the wire."""
    machine = machine_facts()
    if wiring.size == 1:
        return Basis(Model(), machine[1])
    off = (settings.model or "").lower() == "off"
    looks = not off and bool(settings.model or has_any(cache_directory())) if wiring.rank == 0 else False
    cards = wiring.control.exchange([machine, looks, off], deadline=seconds)
    machines = [card[0] for card in cards]
    cores = min(int(machine[1]) for machine in machines)
    _, looks, off = cards[0]
    answer = None
    if looks:
        mine = _answer(settings, machines, wiring.hosts) if wiring.rank == 0 else None
        answer = wiring.control.exchange(mine, deadline=seconds)[0]
        if isinstance(answer, str):
            raise ConfigError(answer)
    if not (answer or off) and len(set(wiring.hosts)) > 1:
        wire = probe_wire(wiring, seconds=seconds)
        answer = wiring.control.exchange(wire and Model().with_wire(*wire).facts(), deadline=seconds)[0]
    return Basis(Model.read(answer) if answer else Model(), cores)


def _answer(settings: Settings, machines: list[Any], hosts: list[str]) -> dict[str, Any] | str | None:
    """A model; what is wrong with the one that was asked for; or nothing, where the cache has none that can be used."""
    if settings.model:
        try:
            return load(Path(settings.model)).facts()
        except ConfigError as error:
            return f"UNISONO_MODEL: {error}"
    path = file_of(cache_directory(), fingerprint(__version__, machines, hosts))
    if not os.path.lexists(path):
        return None
    try:
        return load(path).facts()
    except ConfigError as error:
        print(f"unisono: {error}. Choosing by default prices", file=sys.stderr, flush=True)
        return None
