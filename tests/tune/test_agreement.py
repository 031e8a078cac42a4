"""Ranks choose by the model of rank 0, whatever they have themselves; `unisono tune` makes one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lab.labs import needs_lab
from tests.launcher.processes import MAIN

import unisono
from unisono.comm import calibrate
from unisono.comm.stopwatch import Cell, time_in_turns
from unisono.errors import ConfigError
from unisono.lab import Lab
from unisono.lab.namespaces import in_network_of
from unisono.tune.model import Model
from unisono.tune.place import Place
from unisono.tune.store import save
from unisono.tune.terms import columns

EVERYTHING_BUT_WAITS_IS_FREE = {"memory_crowded": {"wait": 1e-3}, "memory": {"wait": 1e-3}}


def cli(*words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MAIN, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | variables)


def test_ranks_with_different_files_choose_by_that_of_rank_0(tmp_path: Path) -> None:
    cheap_waits = {kind: {"staged_2^12": 1e-6, "staged_2^16": 1e-6} for kind in ("memory", "memory_crowded")}
    save(tmp_path / "0", Model(cheap_waits), {})
    save(tmp_path / "1", Model(EVERYTHING_BUT_WAITS_IS_FREE), {})

    def job(files: list[str]) -> Any:
        rank = int(os.environ["UNISONO_RANK"])
        with unisono.init(model=files[rank]) as comm:
            total = comm.allreduce(np.full(2000, rank + 1.0, np.float32))
            part = comm.split(0)
            assert part is not None
            with part:
                part.allreduce(np.zeros(2000, np.float32))
                recent = [record for each in (comm, part) for record in each.stats()["recent"]]
            return float(total.mean()), [x["algorithm"] for x in recent if x["collective"] == "allreduce"]

    files = [str(tmp_path / name) for name in "01"]
    assert unisono.launch(job, 2, files, timeout=60) == [(3.0, ["direct", "direct"])] * 2
    assert unisono.launch(job, 2, [files[1], files[0]], timeout=60) == [(3.0, ["exchange", "exchange"])] * 2
    assert unisono.launch(job, 2, ["off", files[0]], timeout=60) == [(3.0, ["exchange", "exchange"])] * 2


def test_a_model_that_was_asked_for_and_is_broken_is_an_error_on_every_rank(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("{")

    def job() -> str:
        with pytest.raises(ConfigError, match=r"UNISONO_MODEL: the model .*broken is no JSON") as caught:
            unisono.init(model=str(tmp_path / "broken"))
        return str(caught.value)

    first, second = unisono.launch(job, 2, timeout=60)
    assert first == second


def test_a_broken_file_in_the_cache_is_a_line_on_stderr(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import unisono\nwith unisono.init() as comm:\n    comm.barrier()\n    print('fine')\n")
    here = {"XDG_CACHE_HOME": str(tmp_path), "UNISONO_MODEL": ""}
    made = cli("run", "-n", 2, "-m", "tests.tune.tuned", **here)
    assert made.returncode == 0, made.stderr
    (file,) = (tmp_path / "unisono" / "models").iterdir()
    assert json.loads(file.read_text())["costs"]
    file.write_text("{" * 100_000)
    done = cli("run", "-n", 2, script, **here)
    assert (done.returncode, done.stdout.count("fine")) == (0, 2)
    assert done.stderr.count("is no JSON; make it again with unisono tune") == 1
    done = cli("run", "-n", 2, script, **here | {"UNISONO_MODEL": "off"})
    assert (done.stdout.count("fine"), done.stderr) == (2, "")


def test_what_tune_left_in_the_cache_is_what_init_chooses_by(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import unisono\nwith unisono.init() as comm:\n    print('prices:', comm.explain('allreduce', 64).prices)\n"
    )
    here = {"XDG_CACHE_HOME": str(tmp_path), "UNISONO_MODEL": ""}
    assert cli("run", "-n", 2, script, **here).stdout.count("prices: defaults\n") == 2
    made = cli("run", "-n", 2, "-m", "tests.tune.tuned", **here)
    assert made.returncode == 0, made.stderr
    (file,) = (tmp_path / "unisono" / "models").iterdir()
    assert f"the model is in {file}" in made.stdout
    for ranks in (2, 3):
        assert cli("run", "-n", ranks, script, **here).stdout.count(f"prices: {file}\n") == ranks
    off = here | {"UNISONO_MODEL": "off"}
    assert cli("run", "-n", 2, script, **off).stdout.count("prices: defaults\n") == 2


def test_prices_are_measured_and_predict_what_was_measured() -> None:
    def job() -> Any:
        calibrate.SIZES = {"memory": (64, 4096, 1 << 18)}
        with unisono.init(model="off") as comm:
            prices = calibrate.measure_prices(comm, Place((2,), 2, shares_memory=True))
            gamma = calibrate.measure_gamma(comm)
            return prices, gamma

    (prices, gamma), others = unisono.launch(job, 2, timeout=60)
    assert (prices, gamma) == others, "every rank has the same"
    assert list(prices) == columns("memory")
    assert sum(prices.values()) > 0
    assert {"float32 sum", "float64 max", "float16 sum"} <= gamma.keys()
    assert Model.read({"costs": {"memory": prices}, "gamma": gamma}).costs["memory"] == prices


def test_explain_names_the_candidates_and_measures_them() -> None:
    def job() -> Any:
        with unisono.init(model="off") as comm:
            told = comm.explain("allreduce", 4096)
            measured = comm.explain("allreduce", 4096, measured=True)
            comm.allreduce(np.zeros(1024, np.float32))
            ran = comm.stats()["recent"][-1]["algorithm"]
            for wrong in (("allreduced", 8), ("allreduce", -1), ("allreduce", 1.5)):
                with pytest.raises(unisono.errors.UnisonoError):
                    comm.explain(*wrong)
            return told, measured, ran

    told, measured, ran = unisono.launch(job, 3, timeout=60)[0]
    assert told.chosen.algorithm == ran
    assert [one.algorithm for one in told.candidates] == [one.algorithm for one in measured.candidates]
    assert sum(one.chosen for one in told.candidates) == 1
    assert {"ring", "mst", "flat", "direct"} <= {one.algorithm for one in told.candidates}
    assert all(one.measured > 0 and one.regret >= 0 for one in measured.candidates)
    assert min(one.regret for one in measured.candidates) == 0
    assert f"* {ran}" in str(told)
    assert "measured" not in str(told)
    assert str(measured).count("%") == len(measured.candidates)


def test_algorithms_are_named_with_their_parameters() -> None:
    def job() -> list[float]:
        with unisono.init() as comm:
            x = np.arange(1001.0) * (comm.rank + 1)
            named = (
                "weighted:shares=1x0x2,segments=3",
                "weighted:shares=0x0x1,segments=1",
                "double_binary_tree:segments=5",
            )
            sums = [comm.allreduce(x, algorithm=name) for name in named]
            with pytest.raises(ConfigError, match="shares"):
                comm.allreduce(x, algorithm="weighted:shares=1x1")
            return [float(np.abs(total - 6 * np.arange(1001.0)).max()) for total in sums]

    for links in ("auto", "tcp"):
        os.environ["UNISONO_LINKS"] = links
        try:
            assert unisono.launch(job, 3, timeout=60) == [[0.0] * 3] * 3
        finally:
            del os.environ["UNISONO_LINKS"]


def test_hopeless_algorithms_are_not_timed_on() -> None:
    def job() -> Any:
        with unisono.init() as comm:
            cells = [Cell("allreduce", name, 8) for name in ("exchange", "ring")]
            return time_in_turns(comm, cells, rounds=2, seconds=1e-9, hopeless=1.0)

    for times in unisono.launch(job, 3, timeout=60):
        assert sorted(np.isnan(times).all(axis=0)) == [False, True]


def test_wrong_words_are_answered_in_a_line() -> None:
    for words, near in (
        (("tune", "--ranks", 1), "the nearest is 2"),
        (("explain", "allreduce", "--ranks", 1, "--measured"), "try 2"),
        (("explain", "allreduce", "--ranks", 2, "--measured", "--algorithm", "ring"), "leave out"),
        (("run", "-n", 2, sys.executable, "-c", MAIN, "tune", "--ranks", 3), "leave it out"),
    ):
        done = cli(*words)
        assert done.returncode != 0
        assert near in done.stderr
        assert "Traceback" not in done.stderr


def test_without_a_model_all_ranks_know_what_rank_0_found_of_the_wire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # of a user who never measured
    monkeypatch.delenv("UNISONO_MODEL", raising=False)

    def job(model: str | None) -> Any:
        os.environ["UNISONO_HOST"] = f"host{os.environ['UNISONO_RANK']}"
        with unisono.init(links="tcp", model=model) as comm:
            assert comm.allreduce(np.full(1000, 1.0)).mean() == comm.size
            return comm._runner.selector.model.facts()

    first, *others = unisono.launch(job, 3, None, timeout=60)
    off = unisono.launch(job, 2, "off", timeout=60)
    assert others == [first, first]
    assert first["origin"] == "defaults, and a look at the wire"
    assert 0 < first["costs"]["wire"]["round"] < 0.01
    per_byte = first["costs"]["wire"]["wire_in_step"] + first["costs"]["wire"]["wire_at_once"]
    assert per_byte < 8e-9, "loopback is faster than 1 Gbit/s"
    assert off == [Model().facts()] * 2


LOOK = """
import unisono
with unisono.init() as comm:
    prices = comm._runner.selector.model.costs["wire"]
    print(8e-6 / (prices["wire_in_step"] + prices["wire_at_once"]))
"""


@needs_lab
def test_the_look_at_the_wire_sees_how_fast_it_is(tmp_path: Path) -> None:
    user = (f"XDG_CACHE_HOME={tmp_path}", "UNISONO_MODEL=")
    with Lab(hosts=2, rate="50mbit") as lab:
        for _ in range(4):  # while a busy machine keeps ranks from sending, tokens are saved
            done = lab.run("env", *user, sys.executable, "-c", LOOK, ranks=2, timeout=60)
            assert done.returncode == 0, done.stderr
            mbits = {float(line.partition("] ")[2]) for line in done.stdout.splitlines()}
            assert len(mbits) == 1, "rank 0's word"
            if 35 < (found := mbits.pop()) < 75:
                break
    assert 35 < found < 75


UNEQUAL = """
import json, numpy as np, unisono
from unisono.comm import calibrate
from unisono.tune.model import Model
calibrate.PROBE, calibrate.PROBES = 400_000, 6
with unisono.init() as comm:
    selector = comm._runner.selector
    selector.place = Model(**calibrate.measure_wires(comm)).at(selector.place, comm.hosts)
    comm.barrier()
    x = np.full(1 << 18, comm.rank + 1.0, np.float32)
    before = np.array(comm.stats()["sent"])
    total = float(comm.allreduce(x).mean())
    sent = (np.array(comm.stats()["sent"]) - before) / x.nbytes
    place = selector.place
    assert place.machines == (0, 0, 0, 0), "a lab is one machine"
    print(json.dumps([place.slow, comm.stats()["recent"][-1]["algorithm"], sent.tolist(), total, place.paths]))
"""


def unequal(lab: Lab) -> list[Any]:
    """What each of 4 ranks knows and does."""
    done = lab.run(sys.executable, "-c", UNEQUAL, ranks=4, timeout=60)
    assert done.returncode == 0, done.stderr
    facts = [json.loads(line.partition("] ")[2]) for line in sorted(done.stdout.splitlines())]
    assert {total for _, _, _, total, _ in facts} == {10.0}
    assert len({str([slow, algorithm, paths]) for slow, algorithm, _, _, paths in facts}) == 1, "all know the same"
    return facts


@needs_lab
def test_a_host_with_a_slow_wire_sends_its_vector_once() -> None:
    with Lab(hosts=4, rate="200mbit", rates={"host3": "50mbit"}) as lab:
        facts = unequal(lab)
    slow = facts[3][0]
    assert slow[3] > 2 * max(slow[:3])
    assert sum(facts[3][2]) == pytest.approx(1.0), "a ring would send 1.5 times as much"


TO_HOST_1 = """
qdisc replace dev eth0 root handle 1: htb default 1
class add dev eth0 parent 1: classid 1:1 htb rate 200mbit burst 70000
class add dev eth0 parent 1: classid 1:2 htb rate 20mbit burst 70000
filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.77.0.2 flowid 1:2
"""


@needs_lab
def test_a_slow_path_between_two_hosts_is_found_and_avoided() -> None:
    with Lab(hosts=4, rate="200mbit") as lab:
        with lab.hosts[0].process() as pidfd, in_network_of(pidfd):
            subprocess.run(["tc", "-batch", "-"], input=TO_HOST_1, text=True, check=True, capture_output=True)
        facts = unequal(lab)
    _, algorithm, sent, _, paths = facts[0]
    found = {(source, target): slowness for source, target, slowness, _ in paths}
    slowest = found.pop((0, 1))
    assert slowest > 3 * 16
    assert slowest > max(found.values(), default=0), "as others seem while their processors are busy"
    assert algorithm != "ring"
    assert sent[1] < 1.4, "a ring sends 1.5 vectors that way"
