"""``unisono simulate`` and ``unisono plan`` as a user meets them: real processes, their output and exit codes."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.launcher.processes import complaint


def unisono(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from unisono.cli.main import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def simulated(*arguments: str) -> dict:
    run = unisono("simulate", "allreduce", *arguments, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


PLAIN = ("--alpha", "1us", "--bandwidth", "1GB/s", "--gamma", "0ns", "--bytes", "16000")


def test_a_time_can_be_computed_by_hand() -> None:
    found = simulated("--ranks", "16", "--topology", "hierarchy:4x4", "--algorithm", "recursive_doubling", *PLAIN,
                      "--local-alpha", "1us", "--local-bandwidth", "1GB/s")  # fmt: skip
    assert found["seconds"] == pytest.approx(4e-6 + (1 + 1 + 4 + 4) * 16e-6)
    assert found["terms"]["waiting"] == pytest.approx(6 * 16e-6)
    assert found["bottleneck"] == "host 0 up"
    assert found["rounds"] == 4
    assert found["messages"] == 64
    assert found["links"][0] == {"name": "host 0 up", "bytes": 8 * 16000, "busy_seconds": pytest.approx(128e-6),
                                 "busy": pytest.approx(128 / 164)}  # fmt: skip


def test_without_an_algorithm_the_best_one_for_the_topology_is_taken() -> None:
    run = unisono("simulate", "allreduce", "--ranks", "64", "--topology", "torus:4x4x4", "--bytes", "64MiB")
    assert run.returncode == 0, run.stderr
    first = run.stdout.splitlines()[1].split()[0]
    assert f"{first}, as flows: takes" in run.stdout
    assert "bottleneck:" in run.stdout
    assert simulated("--ranks", "64", "--topology", "hierarchy:8x8", "--bytes", "64MiB")["algorithm"] == "hierarchical"


def test_modes_stragglers_and_slow_links_change_the_time() -> None:
    ring = ("--ranks", "8", "--topology", "ring", "--algorithm", "ring", *PLAIN)
    plain = simulated(*ring)["seconds"]
    assert simulated(*ring, "--mode", "lockstep")["seconds"] == pytest.approx(plain)
    assert simulated(*ring, "--straggler", "rank=7,x=4")["seconds"] == pytest.approx(4 * plain)
    assert simulated(*ring, "--slow-link", "rank 2 +x=5")["bottleneck"] == "rank 2 +x"
    assert simulated(*ring, "--hop", "1us")["seconds"] == pytest.approx(plain + 14e-6)
    assert simulated("--ranks", "8", "--in-network-reduction", *PLAIN)["seconds"] == pytest.approx(18e-6)


def test_a_failure_is_told_rank_by_rank() -> None:
    run = unisono("simulate", "allreduce", "--ranks", "64", "--algorithm", "ring", "--fail", "3@12")
    assert run.returncode == 0, run.stderr
    assert "rank 3 fails in round 12: 63 of the other 63 ranks never end" in run.stdout
    assert "rank 4 waits for rank 3 in round 12" in run.stdout
    stall = simulated("--ranks", "8", "--algorithm", "ring", "--fail", "3@2")["stall"]
    assert stall["ranks_stuck"] == 7
    assert stall["first"][0]["waits_for"] == 3


def test_what_never_happened_is_not_counted(tmp_path: Path) -> None:
    heat, trace = tmp_path / "heat.svg", tmp_path / "trace.json"
    found = simulated("--ranks", "16", "--topology", "ring", "--algorithm", "ring", "--fail", "3@12",
                      "--heat", str(heat), "--trace", str(trace))  # fmt: skip
    events = json.loads(trace.read_text())
    assert found["messages"] == sum(event["ph"] == "s" for event in events) == 232
    assert all(link["busy"] <= 1 for link in found["links"])
    assert "150 %" not in heat.read_text()


def test_a_rank_that_nobody_needs_any_more_stalls_nobody() -> None:
    run = unisono("simulate", "reduce", "--ranks", "4", "--algorithm", "mst", "--fail", "3@2")
    assert run.returncode == 0, run.stderr
    assert "mst, as flows: takes" in run.stdout
    assert "rank 3 fails in round 2, and nobody needs it any more" in run.stdout
    assert "stalls" not in run.stdout


def test_a_trace_of_segments_has_no_more_ranks_than_there_are(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    simulated("--ranks", "4", "--algorithm", "mst", "--segment", "16MiB", "--trace", str(trace))
    named = {event["args"]["name"] for event in json.loads(trace.read_text()) if event["name"] == "process_name"}
    assert named == {f"rank {rank}" for rank in range(4)}


def test_pictures_and_traces_are_written(tmp_path: Path) -> None:
    svg, heat, trace = (tmp_path / name for name in ("a.svg", "b.svg", "c.json"))
    found = simulated("--ranks", "8", "--topology", "mesh:2x4", "--algorithm", "ring",
                      "--svg", str(svg), "--heat", str(heat), "--trace", str(trace))  # fmt: skip
    assert ET.parse(svg).getroot().tag.endswith("svg")
    assert ET.parse(heat).getroot().tag.endswith("svg")
    spans = [event for event in json.loads(trace.read_text()) if event["ph"] == "X"]
    assert len(spans) == 2 * found["messages"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ranks", "64", "--topology", "torus:4x4x3"), "the nearest is torus:4x4x4"),
        (("--ranks", "64", "--topology", "tours"), "did you mean 'torus'?"),
        (("--ranks", "64", "--bandwidth", "-3Gbit"), "did you mean '3Gbit'?"),
        (("--ranks", "64", "--bandwidth", "3Gbt"), "did you mean"),
        (("--ranks", "64", "--bytes", "3GQ"), "did you mean"),
        (("--ranks", "0"), "the nearest is 1"),
        (("--ranks", "64", "--algorithm", "rnig"), "did you mean 'ring'?"),
        (("--ranks", "64", "--mode", "slow"), "there are: flows, lockstep"),
        (("--ranks", "64", "--mode", "lockstp"), "did you mean 'lockstep'?"),
        (("--ranks", "16", "--topology", "hierarchy:2x2x4"), "the nearest is hierarchy:4x4"),
        (("--ranks", "4000", "--topology", "hierarchy:512x8"), "the nearest is hierarchy:500x8"),
        (("--ranks", "8", "--mode", "lockstep", "--fair"), "leave fair or the mode out"),
        (("--ranks", "8", "--in-network-reduction", "--segment", "1MiB"), "leave --algorithm, --fail, --segment"),
        (("--ranks", "8", "--in-network-reduction", "--fair"), "--fair"),
        (
            ("--ranks", "8", "--straggler", "rank=1,x=2", "--straggler", "rank=1,x=3"),
            "rank 1 is 2 times as slow, or 3?",
        ),
        (("--ranks", "8", "--topology", "ring", "--slow-link", "rank 2 +x=2", "--slow-link", "rank 2 +x=3"), "once"),
        (("--ranks", "64", "--straggler", "7x4"), "rank=7,x=4"),
        (("--ranks", "64", "--straggler", "rank=64,x=4"), "the nearest is 63"),
        (("--ranks", "64", "--straggler", "rank=6,x=-4"), "try 4"),
        (("--ranks", "8", "--algorithm", "ring", "--fail", "3@99"), "the nearest is 14"),
        (("--ranks", "8", "--algorithm", "ring", "--fail", "3@0"), "the nearest is 3@1"),
        (("--ranks", "8", "--fail", "9@1"), "the nearest is 7"),
        (("--ranks", "8", "--fail", "three"), "such as 3@12"),
        (("--ranks", "8", "--slow-link", "x=2"), "only the ports"),
        (("--ranks", "8", "--topology", "ring", "--slow-link", "rank 2 x=2"), "the nearest is 'rank 2 "),
        (("--ranks", "8", "--topology", "ring", "--slow-link", "fast"), "host 3 up=4"),
        (("--ranks", "8", "--topology", "ring", "--oversubscription", "2"), "only a fat-tree"),
        (("--ranks", "8", "--topology", "ring", "--in-network-reduction"), "choose switch, fat-tree or hierarchy"),
        (("--ranks", "8", "--in-network-reduction", "--algorithm", "ring"), "leave --algorithm"),
        (("--ranks", "8", "--mode", "lockstep", "--svg", "x.svg"), "--svg and --trace show flows"),
        (("--ranks", "100000", "--algorithm", "direct"), "such as ring"),
        (("--ranks", "8", "--algorithm", "ring", "--heat", "/nowhere/x.svg"), "cannot write"),
        (("--ranks", "1000000", "--trace", "/nowhere/x.json"), "cannot write"),
        (("--ranks", "8", "--svg", "/"), "cannot write /: Is a directory"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert said in complaint(["simulate", "allreduce", *arguments], monkeypatch, capfd)


PLAN = ("plan", "--model-bytes", "4GB", "--compute-ms", "300", "--link", "10gbit")


def test_a_plan_says_what_it_comes_to(tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"
    run = unisono(*PLAN, "--hosts", "1:64", "--price", "2.5/h", "--plot", str(picture))
    assert run.returncode == 0, run.stderr
    assert "the links (β) the bottleneck" in run.stdout
    assert "What would help most:" in run.stdout
    assert "Adding machines stops paying at 1" in run.stdout
    assert "Several hosts are slower than one until there are 24." in run.stdout
    assert "per 1,000 batches" in run.stdout
    assert ET.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("arguments", "said", "unsaid"),
    [
        (("--model-bytes", "500MB", "--compute-ms", "1000", "--buckets", "1", "--gamma", "0ns", "--alpha", "1us"),
         "Adding machines still pays at 64: from 2 on, each adds at least half", "stops paying"),
        ((*PLAN[1:], "--hosts", "4"), "stops paying at 1: beyond", "still pays"),
        ((*PLAN[1:], "--hosts", "1"), "On 1 host, ring is best", "pays"),
    ],
)  # fmt: skip
def test_a_plan_says_where_machines_pay(arguments: tuple[str, ...], said: str, unsaid: str) -> None:
    run = unisono("plan", *arguments)
    assert run.returncode == 0, run.stderr
    assert said in run.stdout
    assert unsaid not in run.stdout


def test_hosts_of_several_ranks_are_planned_in_seconds() -> None:
    run = unisono(*PLAN, "--hosts", "1:64", "--per-host", "8")
    assert run.returncode == 0, run.stderr
    assert "On 64 hosts" in run.stdout


def test_messages_that_start_for_nothing_are_simulated_in_seconds() -> None:
    assert simulated("--ranks", "8", "--alpha", "0s", "--bytes", "500MB")["terms"]["alpha"] == 0


def test_a_plan_as_json_has_every_step() -> None:
    run = unisono(*PLAN, "--hosts", "1,8", "--alpha", "10us", "--gamma", "0ns", "--price", "3.6/h", "--json")
    found = json.loads(run.stdout)
    ring = next(x for x in found["steps"] if (x["strategy"], x["hosts"], x["overlapped"]) == ("ring", 8, False))
    assert ring["step_seconds"] == pytest.approx(0.3 + 14 * 10e-6 + 2 * 7 / 8 * 4e9 * 0.8e-9)
    assert ring["efficiency"] == pytest.approx(0.3 / ring["step_seconds"])
    assert ring["cost_per_1000_batches"] == pytest.approx(ring["step_seconds"])
    assert len(found["conclusions"]) >= 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--hosts", "64:1"), "the nearest is 1:64"),
        (("--hosts", "some"), "write 1:64"),
        (("--hosts", "0:64"), "the nearest is 1"),
        (("--hosts", "1:9999"), "not 9999; the nearest is 4096"),
        (("--hosts", "1:99999"), "not 99999; the nearest is 4096"),
        (("--price", "2.5/week"), "did you mean 2.5/h?"),
        (("--price", "-2/h"), "the nearest is 0/h"),
        (("--price", "cheap"), "write it as 2.5/h"),
        (("--compute-ms", "-1"), "longer than 0 ms; try 300"),
        (("--link", "10parsec"), "did you mean"),
        (("--plot", "x.png"), "the nearest is x.svg"),
        (("--plot", "/nowhere/x.svg"), "cannot write /nowhere/x.svg: No such file or directory"),
        (("--plot", "x.svg", "--hosts", "1"), "try --hosts 1:2"),
        (("--compute-ms", "0"), "longer than 0 ms; try 300"),
        (("--backward", "2"), "the nearest is 1"),
        (
            ("--per-host", "100000"),
            "--per-host 100000: on 64 hosts there are 1 to 1024 ranks per host; the nearest is 1024",
        ),
        (("--hosts", "1:4096", "--per-host", "100"), "--per-host 100: on 4096 hosts there are 1 to 64 ranks per host"),
        (("--per-host", "0"), "--per-host 0: on 64 hosts there are 1 to 1024 ranks per host; the nearest is 1"),
    ],
)
def test_plans_that_make_no_sense_get_a_line(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert said in complaint([*PLAN, *arguments], monkeypatch, capfd)
