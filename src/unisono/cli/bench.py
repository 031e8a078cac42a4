"""``unisono bench``: our collectives against those of others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import config
from ..bench.cells import Cell, plan_cells
from ..bench.contestants import OURS, Contestant, Other, Unisono, choose_peers
from ..bench.install import install
from ..bench.peers import NAMES, check_names
from ..bench.plot import check_picture, draw
from ..bench.ratios import summary
from ..bench.reference import read_reference
from ..bench.results import Results, from_json
from ..bench.rounds import Turn, run_rounds
from ..errors import ConfigError
from ..launcher.job import check_ranks
from ..values import nearest, whole
from .scores import judge_quietness, show_scores
from .units import parse_bytes

SIZES = "8,1KiB,32KiB,256KiB,1MiB,16MiB,64MiB"
LINKS = ("auto", "shm", "staged", "tcp")
SMALLEST = 4  # bytes
ARRAYS = {"ordinary": "unisono", "empty": "unisono empty()"}


def bench(
    against: Annotated[str, typer.Option(metavar="PEERS", help="Some of gloo,openmpi,mpich,impi; or none.")] = "",
    collective: Annotated[str, typer.Option(metavar="NAMES", help="allreduce,broadcast,…,barrier")] = "allreduce",
    variant: Annotated[str | None, typer.Option(help="in-place, oop (out of place) or fresh.")] = None,
    sizes: Annotated[str, typer.Option(help="Of the whole vector, such as 8,1KiB,64MiB.")] = SIZES,
    ranks: Annotated[str, typer.Option(metavar="NUMBERS", help="How many ranks, such as 2,4,8.")] = "2,4",
    links: Annotated[str, typer.Option(help="auto, shm, staged or tcp; with tcp the peers use TCP, too.")] = "auto",
    arrays: Annotated[str, typer.Option(metavar="KINDS", help="Of ours: ordinary,empty.")] = "",
    rounds: Annotated[int, typer.Option(help="How often everybody runs.")] = 9,
    budget: Annotated[float, typer.Option(help="Seconds for the calls of one cell in one round.")] = 0.3,
    deadline: Annotated[float, typer.Option(help="Seconds for all cells of one contestant in one round.")] = 120.0,
    peers: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the peers are installed; or set UNISONO_PEERS.")
    ] = None,
    install_to: Annotated[
        Path | None, typer.Option("--install", metavar="DIR", help="Install the peers there, and do no more.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The peers' figures on this machine when it is quiet.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw to this .png, .svg or .pdf.")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Show what --json printed before; run nothing.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every figure of every round.")] = False,
) -> int:
    """Run us and the peers on the same sizes in turns; print the ratio of our time to the best peer's."""
    names = [] if against == "none" else _words("--against", against or ",".join(NAMES))
    check_names(names)
    if install_to:
        install(names, install_to, tell=lambda line: print(line, file=sys.stderr))
        return 0
    known = read_reference(reference) if reference else None
    if plot:
        check_picture(plot)  # now, not after an hour
    if source:
        results = from_json(_read(source), str(source))
    else:
        _check_numbers(rounds, budget, deadline)
        ours = _ours(arrays, links)
        results = Results(links=links, rounds=rounds, budget=budget, ours=ours)
        contestants: list[Contestant] = [*(Unisono(name, links) for name in ours), *_find(names, links, peers, results)]
        cells = plan_cells(_words("--collective", collective), variant, _ranks(ranks), _sizes(sizes))
        _run(contestants, cells, results, deadline)
    if plot and results.measurements:
        draw(results, plot)
    if as_json:
        print(results.to_json(summary(results)))
    else:
        show_scores(results)
    if known:
        for line in judge_quietness(results, known):
            print(line, file=sys.stderr if as_json else sys.stdout)
    return 130 if results.interrupted else int(any(one.contestant in OURS for one in results.failures))


def _words(option: str, text: str) -> list[str]:
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise ConfigError(f"{option} {text!r}: write one, or several with commas between them")
    return words


def _ranks(text: str) -> list[int]:
    counts = [whole("--ranks", word, low=1) for word in _words("--ranks", text)]
    for count in counts:
        check_ranks(count, "--ranks")
    return counts


def _sizes(text: str) -> list[int]:
    sizes = [parse_bytes(word) for word in _words("--sizes", text)]
    if small := [size for size in sizes if size < SMALLEST]:
        raise ConfigError(f"--sizes {small[0]}: a vector has {SMALLEST} bytes, one float32, or more")
    return sizes


def _ours(arrays: str, links: str) -> list[str]:
    """Over TCP nothing is shared, so that arrays are alike."""
    if links not in LINKS:
        raise ConfigError(f"--links {links!r}: valid is one of {', '.join(LINKS)}{nearest(links, LINKS)}")
    kinds = _words("--arrays", arrays) if arrays else ["ordinary"] if links == "tcp" else list(ARRAYS)
    for kind in kinds:
        if kind not in ARRAYS:
            raise ConfigError(f"--arrays {kind!r}: valid is some of {', '.join(ARRAYS)}{nearest(kind, tuple(ARRAYS))}")
    return [ARRAYS[kind] for kind in kinds]


def _find(names: list[str], links: str, directory: Path | None, results: Results) -> list[Other]:
    """The peers that are installed; of the others it is said how that would be done."""
    found, results.missing = choose_peers(names, links, directory or config.peers_directory())
    results.peers = [one.name for one in found]
    for name, line in results.missing.items():
        print(f"unisono: {name} is not installed: {line}", file=sys.stderr)
    return found


def _check_numbers(rounds: int, budget: float, deadline: float) -> None:
    if rounds < 1:
        raise ConfigError(f"--rounds {rounds}: a run has 1 round or more; the nearest is 1")
    if not 0 < budget < deadline:
        raise ConfigError(f"--budget {budget:g}: write seconds above 0 and below the --deadline of {deadline:g}")


def _run(contestants: list[Contestant], cells: list[Cell], results: Results, deadline: float) -> None:
    """On a terminal, a line says whose turn it is. It changes between turns only: a clock would disturb them."""

    def tell(turn: Turn) -> None:
        _tell(f"round {turn.round + 1} of {results.rounds}, {turn.ranks} ranks: {turn.contestant.name}")

    run_rounds(contestants, cells, results, deadline=deadline, tell=tell)
    _tell("")


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--from {path}: {error.strerror}") from error
