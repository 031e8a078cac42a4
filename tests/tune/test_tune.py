"""`unisono tune` on this machine alone, with little effort: what is measured, and what is kept."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import unisono
from unisono.cli import tune
from unisono.comm import calibrate
from unisono.tune.model import Model, path_name
from unisono.tune.place import Place
from unisono.tune.select import MOST_IN_MEMORY, Selector
from unisono.tune.terms import kind_of

CORES = os.cpu_count() or 1


def measure_briefly(links: str) -> dict[str, Any]:
    """A rank, with little effort."""
    calibrate.SIZES = {"memory": (64, 4096), "tcp": (64, 4096)}
    calibrate.ROUNDS, calibrate.SECONDS = 1, 0.001
    with unisono.init(links=links, model="off") as comm:
        return dict(calibrate.measure(comm))


@pytest.mark.parametrize(
    ("cores", "ranks", "counts"),
    [
        (1, None, [2]),
        (2, None, [2, 4]),
        (3, None, [3, 5]),
        (4, None, [4, 6]),
        (8, None, [4, 10]),
        (14, None, [4, 16]),
        (64, None, [4]),
        (4, 8, [4, 8]),
        (8, 3, [3]),
    ],
)
def test_some_ranks_have_cores_and_others_share_them(cores: int, ranks: int | None, counts: list[int]) -> None:
    assert tune.counts_on(cores, ranks) == counts


@pytest.mark.skipif(CORES > 14, reason="would start many ranks")
def test_this_machine_is_measured_with_and_without_a_crowd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tune, "measure_ranks", measure_briefly)
    out = tmp_path / "model.json"
    tune._measure_here([CORES + 1], out)
    alone = json.loads(out.read_text())["gamma"]
    assert {f"{dtype} {op}" for dtype in calibrate.DTYPES for op in calibrate.OPERATORS} <= alone.keys()
    assert 0 < alone["float32 sum"] < alone["float16 prod"] < 1e-7
    tune._measure_here([max(2, min(CORES, 4))], out)
    found = json.loads(out.read_text())
    assert all(sum(found["costs"][kind].values()) > 0 for kind in ("memory_crowded", "tcp_crowded"))
    crowd, few = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"measured crowded memory, crowded tcp in \d+ s; the model is in {out}", crowd)
    assert re.fullmatch(
        rf"measured {'' if CORES > 1 else 'crowded '}memory, .*tcp in \d+ s; the model is in {out}", few
    )


def test_paths_that_differ_are_named() -> None:
    names = ["a", "b", "c"]
    paths = {path_name(one, other): 1e8 for one in names for other in names if one != other}
    delays = dict.fromkeys(paths, 5e-5)
    model = Model(rates=dict.fromkeys(names, 1e8), path_rates=paths, path_delays=delays)
    assert list(tune._paths(model, ["a", "a", "b", "c"])) == []
    paths["a → b"], delays["c → a"] = 1e7, 1e-4
    slow, far = tune._paths(model, ["a", "a", "b", "c"])
    assert slow.split() == ["a", "→", "b", "80", "Mbit/s"]
    assert far.split()[:5] == ["c", "→", "a", "100", "µs,"]


def test_many_ranks_on_fewer_cores_are_chosen_for_as_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def watched(collective: str, p: int, nbytes: int, place: Place) -> list[str]:
        seen.append(kind_of(place))
        return ["direct"]

    monkeypatch.setattr("unisono.tune.select.candidates", watched)
    for ranks in (12, 20):
        Selector(Model(), Place((ranks,), 16, shares_memory=True)).choose("allreduce", ranks, 1 << 16)
    assert MOST_IN_MEMORY < 12
    assert seen == ["memory", "memory_crowded"]
