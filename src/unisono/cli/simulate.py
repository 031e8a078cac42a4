"""``unisono simulate``: a collective on machines that are not here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ..errors import ConfigError
from ..interpret.machine import Link, Machine
from ..schedule.spelling import parse_algorithm
from ..simulate import (
    Outcome,
    Setting,
    Topology,
    chrome_trace,
    draw_flights,
    draw_heat,
    simulate,
    simulate_in_network,
    topology,
)
from ..simulate.candidates import candidates, schedule_for
from ..simulate.simulation import require_mode
from .choices import parse_failure, parse_slow_link, parse_straggler, require_ranks
from .simulate_files import require_writable, write
from .simulated import fields, show, show_candidates
from .units import parse_bandwidth, parse_bytes, parse_seconds

Name = TypeVar("Name", int, str)


def simulate_command(
    collective: Annotated[str, typer.Argument(help="allreduce, broadcast, …")],
    ranks: Annotated[int, typer.Option(help="How many ranks take part.")],
    on: Annotated[
        str,
        typer.Option(
            "--topology", help="switch, ring, fat-tree[:16x16x4], torus[:16x16x16], mesh[:8x8], hierarchy[:512x8]."
        ),
    ] = "switch",
    size: Annotated[str, typer.Option("--bytes", help="The vector: 64MiB, 1GB, 8.")] = "64MiB",
    algorithm: Annotated[
        str | None, typer.Option(help="One of `unisono algorithms`, with parameters: mesh_2d:dims=4x2. Else the best.")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="flows (each rank at its own pace), or lockstep (all at that of a round).")
    ] = "flows",
    straggler: Annotated[
        list[str] | None, typer.Option(help="rank=7,x=4: takes 4 times as long for everything.")
    ] = None,
    fail: Annotated[str | None, typer.Option(help="rank@round: the rank never begins that round.")] = None,
    in_network_reduction: Annotated[bool, typer.Option("--in-network-reduction", help="Switches add up.")] = False,
    root: Annotated[int, typer.Option(help="The root, where the collective has one.")] = 0,
    alpha: Annotated[str, typer.Option(help="Time to start a message.")] = "30us",
    bandwidth: Annotated[str, typer.Option(help="Of a rank's port, and of every link, in each direction.")] = "10Gbit",
    gamma: Annotated[str, typer.Option(help="Time to reduce a byte.")] = "0.1ns",
    local_alpha: Annotated[str, typer.Option(help="Time to start a message inside a host of a hierarchy.")] = "2us",
    local_bandwidth: Annotated[str, typer.Option(help="Inside a host of a hierarchy.")] = "100Gbit",
    hop: Annotated[str, typer.Option(help="Time that each shared link adds to a message.")] = "0s",
    oversubscription: Annotated[
        float, typer.Option(help="Of a fat-tree: so many times fewer links up, per level.")
    ] = 1.0,
    slow_link: Annotated[list[str] | None, typer.Option(help="'host 3 up=4': this link takes 4 times as long.")] = None,
    segment: Annotated[str | None, typer.Option(help="64KiB: messages are passed on while they arrive.")] = None,
    fair: Annotated[bool, typer.Option("--fair", help="Messages share links alike, as in TCP or SimGrid.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw space and time.", metavar="FILE")] = None,
    heat: Annotated[Path | None, typer.Option(help="Draw how busy links were.", metavar="FILE")] = None,
    trace: Annotated[Path | None, typer.Option(help="Write a trace for Perfetto.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Simulate a collective on a topology: how long it takes, why, and which link is the bottleneck."""
    require_ranks(collective, ranks, root)
    require_mode(mode)
    require_writable(svg, heat, trace)
    nbytes = parse_bytes(size)
    joined = _slowed(topology(on, ranks, oversubscription=oversubscription), slow_link or [])
    machine = _machine(joined, (alpha, bandwidth), (local_alpha, local_bandwidth), parse_seconds(gamma))
    stragglers = _each_once("--straggler", "rank", map(parse_straggler, straggler or []))
    options: dict[str, Any] = {"hop": parse_seconds(hop), "stragglers": stragglers}
    if in_network_reduction:
        if algorithm or fail or svg or trace or segment or fair:
            raise ConfigError(
                "--in-network-reduction has no schedule: leave --algorithm, --fail, --segment, --fair, --svg and "
                "--trace out"
            )
        outcome = simulate_in_network(collective, nbytes, Setting(machine, joined, **options), mode=mode)
        _finish(outcome, None, heat, None, as_json=as_json)
        return
    if mode == "lockstep" and (svg or trace):
        raise ConfigError("--svg and --trace show flows; leave --mode lockstep out, or use `unisono explain --svg`")
    failing = None if fail is None else parse_failure(fail)
    rivals: Any = None
    if algorithm is not None:
        chosen, parameters = parse_algorithm(collective, algorithm)
        schedule = schedule_for(chosen, nbytes, machine, joined, root, **parameters)
    else:
        rivals = candidates(collective, nbytes, machine, joined, root, **options)
        schedule = rivals[0][0][0]
    options |= {"segment": None if segment is None else parse_bytes(segment), "fair": fair}
    record = svg is not None or trace is not None
    outcome = simulate(schedule, nbytes, machine, joined, mode=mode, fail=failing, record=record, **options)
    if rivals and not as_json:
        show_candidates(*rivals)
    _finish(outcome, svg, heat, trace, as_json=as_json)


def _slowed(joined: Topology, slow_links: list[str]) -> Topology:
    for name, factor in _each_once("--slow-link", "link", map(parse_slow_link, slow_links)).items():
        joined = joined.with_slow_link(name, factor)
    return joined


def _each_once(option: str, what: str, pairs: Iterable[tuple[Name, float]]) -> dict[Name, float]:
    found: dict[Name, float] = {}
    for name, factor in pairs:
        if name in found:
            raise ConfigError(f"{option}: {what} {name} is {found[name]:g} times as slow, or {factor:g}? Say it once")
        found[name] = factor
    return found


def _machine(joined: Topology, link: tuple[str, str], local: tuple[str, str], gamma: float) -> Machine:
    outside = Link(parse_seconds(link[0]), 1 / parse_bandwidth(link[1]))
    inside = Link(parse_seconds(local[0]), 1 / parse_bandwidth(local[1]))
    if not joined.name.startswith("hierarchy"):
        return Machine(outside, gamma)
    hosts, ranks = map(int, joined.name.partition(":")[2].split("x"))
    return Machine(outside, gamma, local=inside, hosts=(ranks,) * hosts)


def _finish(outcome: Outcome, svg: Path | None, heat: Path | None, trace: Path | None, *, as_json: bool) -> None:
    for path, draw in ((svg, draw_flights), (heat, draw_heat), (trace, chrome_trace)):
        if path is not None:
            write(path, draw(outcome))
    if as_json:
        print(json.dumps(fields(outcome), indent=2))
    else:
        show(outcome)
