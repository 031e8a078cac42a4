"""``unisono tune``: measure the machine, so that algorithms are chosen by what they take here."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from ..comm.calibrate import measure
from ..comm.start import init
from ..config import cache_directory, read_settings
from ..errors import ConfigError
from ..launcher.function import launch
from ..tune.model import Model, path_name
from ..tune.place import SLOWNESS, Place
from ..tune.store import file_of, fingerprint, load, machine_facts, save

LONGEST = 120.0
MOST_RANKS = 64
FEW, MOST_CROWDED = 4, 16
"""Ranks that are measured if nobody says how many: with a core each, and with more ranks than cores."""


def tune(
    ranks: Annotated[
        int | None, typer.Option(help="Of this machine; by default up to 4, and two more than it has cores.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the model here, not to the cache.", metavar="FILE")] = None,
) -> None:
    """Measure what messages, bytes and waits cost here; init() then chooses by that.

    Alone, it starts ranks on this machine. Under unisono run, the ranks that were started are measured, with what is
    between them.
    """
    if read_settings().size > 1:
        if ranks is not None:
            raise ConfigError(f"--ranks {ranks}: there are ranks already; leave it out, or leave out unisono run")
        _measure_these(out)
        return
    cores = os.cpu_count() or 1
    if ranks is not None and not 2 <= ranks <= MOST_RANKS:
        raise ConfigError(
            f"--ranks {ranks}: 2 to {MOST_RANKS} can be measured; the nearest is {min(max(ranks, 2), MOST_RANKS)}"
        )
    counts = counts_on(cores, ranks)
    if counts[-1] <= cores <= MOST_RANKS - 2:
        print(f"more ranks than {cores} cores: not measured, prices as before; --ranks {cores + 2} would", flush=True)
    _measure_here(counts, out)


def counts_on(cores: int, ranks: int | None = None) -> list[int]:
    """How many ranks are measured: some with a core each, and more than there are cores, unless these are many."""
    if ranks is not None:
        return sorted({max(2, min(ranks, cores)), ranks})
    crowd = min(2 * cores, cores + 2)
    return sorted({max(2, min(FEW, cores)), *([crowd] if crowd <= MOST_CROWDED else [])})


def measure_ranks(links: str) -> dict[str, Any]:
    """One of the ranks that are started here."""
    with init(links=links, model="off") as comm:
        return dict(measure(comm))


def _measure_here(counts: list[int], out: Path | None) -> None:
    begun = time.monotonic()
    steps = [(count, links) for count in counts for links in ("auto", "tcp")]
    facts: dict[str, Any] = {}
    for number, (count, links) in enumerate(steps, 1):
        _progress(f"{number} of {len(steps)}: {count} ranks, {'shared memory' if links == 'auto' else 'TCP'}")
        _merge(facts, launch(measure_ranks, count, links, timeout=LONGEST)[0])
    _progress("")
    _keep(facts, [machine_facts()], ["here"], out, begun)


def _measure_these(out: Path | None) -> None:
    begun = time.monotonic()
    with init(model="off", allow_pickle=True) as comm:
        first = comm.rank == 0
        facts = dict(measure(comm, lambda text: print(f"measuring: {text}", flush=True) if first else None))
        machines = comm.allgather_object(machine_facts())
        if first:
            _keep(facts, machines, comm.hosts, out, begun)


def _keep(facts: dict[str, Any], machines: list[list[Any]], hosts: list[str], out: Path | None, begun: float) -> None:
    """Together with what was measured before of the same cluster. The last line says it all."""
    path = out or file_of(cache_directory(), fingerprint(__version__, machines, hosts))
    known: dict[str, Any] = {}
    if path.exists():
        try:
            known = load(path).facts()
        except ConfigError as error:
            print(f"unisono: {error}. It is replaced", file=sys.stderr)
    _merge(known, facts)
    about = {
        "unisono": __version__,
        "hosts": sorted(set(hosts)),
        "machines": machines[:1],
        "at": time.strftime("%F %T"),
    }
    model = Model.read(known)
    save(path, model, about)
    for host, rate in facts.get("rates", {}).items():
        print(f"{host:16} {rate * 8e-6:,.0f} Mbit/s")
    for line in _paths(model, hosts):
        print(line)
    kinds = ", ".join(" ".join(reversed(kind.split("_"))) for kind in facts["costs"])
    print(f"measured {kinds} in {time.monotonic() - begun:.0f} s; the model is in {path}")


def _paths(model: Model, hosts: list[str]) -> Iterator[str]:
    """Those that are unlike the wires of their hosts."""
    names = list(dict.fromkeys(hosts))
    for between in model.at(Place.of(hosts, 1), hosts).paths:
        name = path_name(names[between.source], names[between.target])
        if between.slow > SLOWNESS:
            yield f"{name:16} {model.path_rates[name] * 8e-6:,.0f} Mbit/s"
        if between.far > SLOWNESS:
            far = f"{between.far / SLOWNESS:.1f} times as far as the nearest"
            yield f"{name:16} {model.path_delays[name] * 1e6:,.0f} µs, {far}"


def _merge(known: dict[str, Any], more: dict[str, Any]) -> None:
    for name in ("costs", "gamma", "rates"):
        known[name] = known.get(name, {}) | more.get(name, {})
    if "rates" in more:  # paths of old and new hosts are not measured together
        known |= {name: more.get(name, {}) for name in ("path_rates", "path_delays")}


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
