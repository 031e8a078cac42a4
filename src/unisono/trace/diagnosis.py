"""What happened to a job, from what its ranks left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .causes import Cause, find_cause
from .dump import Dump, Failure
from .ends import End, Ends
from .record import Record
from .scene import Scene, call_under_way, last_call, main_frame, make_scenes
from .stacks import Frame
from .waits import Wait, find_chain, find_waits


class State(NamedTuple):
    """Of a rank in a communicator; without a failure, it left no record."""

    rank: int
    name: str
    communicator: str
    call: Record | None  # the last one; of a rank without a record, the last to which another one saw it come
    is_in_call: bool
    at: Frame | None
    wait: Wait | None
    failure: Failure | None
    end: End | None  # of its process, if the launcher told


class Story(NamedTuple):
    """What happened in one communicator."""

    communicator: str
    ranks: list[int]
    cause: Cause
    waits: list[Wait]  # the nearer to the end of the chain, the earlier
    chain: list[int]  # who waited for whom for whom
    states: list[State]


class Run(NamedTuple):
    """Another run, whose dumps are in the same directory."""

    run: str
    ranks: list[int]
    clock: float


class Diagnosis(NamedTuple):
    """Of the newest run."""

    run: str
    job: str
    names: list[str]  # by rank
    hosts: list[str]  # of the ranks that left a record
    clock: float  # when the first rank learned of a failure, in seconds since 1970
    stories: list[Story]  # by the time at which they began
    silent: list[int]  # ranks that left no record at all
    other_runs: list[Run]


def diagnose(dumps: Sequence[Dump], ends: Sequence[Ends] = ()) -> Diagnosis | None:
    """None if there is nothing to go by."""
    runs: dict[tuple[str, int], list[Dump]] = {}
    for dump in dumps:
        runs.setdefault((dump.run, dump.size), []).append(dump)
    if not runs:
        return None
    newest, *others = sorted(runs.values(), key=lambda run: -max(dump.clock for dump in run))
    first = newest[0]
    recorded = {dump.rank for dump in newest}
    end_of = {end.rank: end for of_host in ends if of_host.job == first.job for end in of_host.ends}
    return Diagnosis(
        run=first.run,
        job=first.job,
        names=first.names,
        hosts=sorted({dump.host for dump in newest}),
        clock=min(dump.clock for dump in newest),
        stories=[_tell(scene, first.names, end_of) for scene in make_scenes(newest)],
        silent=[rank for rank in range(first.size) if rank not in recorded],
        other_runs=[
            Run(run[0].run, sorted({dump.rank for dump in run}), max(dump.clock for dump in run)) for run in others
        ],
    )


def _tell(scene: Scene, names: list[str], ends: dict[int, End]) -> Story:
    cause = find_cause(scene)
    waits = find_waits(scene)
    chain = find_chain(waits, cause.ranks)
    place = {rank: number for number, rank in enumerate(chain)}
    order = sorted(waits.values(), key=lambda wait: (-place.get(wait.rank, -1), wait.rank))
    states = [_state(scene, rank, names[rank], waits.get(rank), ends.get(rank)) for rank in scene.ranks]
    return Story(scene.communicator, scene.ranks, cause, order, chain, states)


def _state(scene: Scene, rank: int, name: str, wait: Wait | None, end: End | None) -> State:
    dump = scene.dumps.get(rank)
    if dump is None:
        seen = scene.last_seen(rank)
        return State(rank, name, scene.communicator, seen, False, None, None, None, end)
    under_way = call_under_way(dump)
    return State(
        rank,
        name,
        scene.communicator,
        under_way or last_call(dump),
        under_way is not None,
        main_frame(dump),
        wait,
        dump.failure,
        end,
    )
