"""What an engine shows of itself."""

import gc
import json
import threading
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from tests.engine.bodies import Gate

from unisono.engine import Completion, Engine, SerialEngine, nothing
from unisono.engine.dependencies import ACCUMULATE, MUTATE, READ, STATES, Entry, Touch, dependencies
from unisono.engine.report import report as make_report
from unisono.errors import ConfigError

HERE = "test_pictures.py"


def entry(serial: int, *uses: tuple[int, int], begun: int = 0, ended: int = 0) -> Entry:
    return Entry(
        serial, str(serial), "", tuple(Touch(v, f"v{v}", mode) for v, mode in uses), 3, begun=begun, ended=ended
    )


def edges(*entries: Entry) -> list[tuple[int, int]]:
    return [(edge.before, edge.after) for edge in dependencies(entries)]


def test_dependencies_are_those_of_the_queues() -> None:
    assert edges(entry(1, (0, MUTATE)), entry(2, (0, READ)), entry(3, (0, READ)), entry(4, (0, MUTATE))) == [
        (1, 2), (1, 3), (2, 4), (3, 4),
    ]  # fmt: skip
    assert edges(entry(1, (0, MUTATE)), entry(2, (0, MUTATE)), entry(3, (1, READ)), entry(4, (1, READ))) == [(1, 2)]
    run = [entry(1, (0, MUTATE)), entry(2, (0, ACCUMULATE)), entry(3, (0, ACCUMULATE)), entry(4, (0, READ))]
    assert edges(*run) == [(1, 2), (1, 3), (2, 4), (3, 4)]
    assert edges(*run, entry(5, (0, ACCUMULATE))) == [(1, 2), (1, 3), (2, 4), (3, 4), (4, 5)]


def test_the_graph_shows_what_is_under_way(tmp_path: Path) -> None:
    with Engine(1) as engine:
        assert engine.graph().entries == []
        A, B = engine.variable("A"), engine.variable("B <&>")
        go, entered = threading.Event(), threading.Event()
        engine.push(lambda: (entered.set(), go.wait(20)), mutate=[A], name="first")
        assert entered.wait(20)
        engine.push(lambda: None, read=[A], mutate=[B], name='second "quoted"')
        engine.push(lambda: None, accumulate=[B], name="third")
        engine.push(lambda: None, name="free")
        graph = engine.graph()
        go.set()
    assert [(each.name, each.state) for each in graph.entries] == [
        ("first", 2), ('second "quoted"', 0), ("third", 0), ("free", 1),
    ]  # fmt: skip
    assert [(edge.before, edge.after, edge.variable) for edge in graph.edges] == [(1, 2, "A"), (2, 3, "B <&>")]
    assert '1 -> 2 [label="A"]' in str(graph)
    assert '\\"quoted\\"' in graph.dot()
    assert HERE in graph.dot()
    root = ElementTree.fromstring(graph.svg())
    assert {"first", "third", "free"} <= {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    graph.save(tmp_path / "graph.svg")
    graph.save(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == graph.dot()
    with pytest.raises(ConfigError, match=r"\.dot or \.svg"):
        graph.save(tmp_path / "graph.png")


def test_a_trace_has_slices_and_arrows(tmp_path: Path) -> None:
    with Engine(2, log=True) as engine:
        A, B = engine.variable("A"), engine.variable("B")
        engine.push(lambda: time.sleep(0.01), mutate=[A], name="load")
        engine.push_async(lambda done: threading.Timer(0.02, done).start(), read=[A], mutate=[B], name="send")
        engine.push(lambda: time.sleep(0.005), read=[A], name="compute")
        engine.wait(A, B)
        engine.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())
    slices = {event["name"]: event for event in events if event["ph"] == "X"}
    assert slices.keys() == {"load", "send", "compute"}
    assert slices["load"]["dur"] >= 10_000
    assert slices["send"]["args"]["reads"] == ["A"]
    assert HERE in slices["send"]["args"]["pushed at"]
    starts, ends = ({event["id"]: event for event in events if event["ph"] == phase} for phase in "sf")
    assert starts.keys() == ends.keys()
    assert len(starts) == 2
    for number, start in starts.items():
        assert start["name"] == "A"
        assert start["ts"] <= ends[number]["ts"], "nothing begins before what it waits for has ended"
        assert slices["load"]["ts"] <= start["ts"] <= slices["load"]["ts"] + slices["load"]["dur"]


def test_the_report_names_the_critical_path_and_the_parallelism() -> None:
    second = 10**9
    entries = []
    for i in range(4):
        begun = (1 + i) * second
        entries.append(entry(2 * i, (0, MUTATE), begun=begun, ended=begun + second))
        entries.append(entry(2 * i + 1, (1, MUTATE), begun=begun, ended=begun + second // 10))
    found = make_report(entries)
    assert [each.serial for each in found.critical_path] == [0, 2, 4, 6]
    assert (found.critical, found.elapsed, found.work) == pytest.approx((4.0, 4.0, 4.4))
    assert (found.possible, found.parallelism) == pytest.approx((1.1, 1.1))


def test_the_report_of_an_engine_is_about_what_it_ran() -> None:
    with Engine(2, log=True) as engine:
        A = engine.variable("A")
        for i in range(4):
            engine.push(lambda: time.sleep(0.01), mutate=[A], name=f"long {i}")
        engine.wait(deadline=20)
        report = engine.report()
    assert [each.name for each in report.critical_path] == [f"long {i}" for i in range(4)]
    assert 0.04 <= report.critical <= report.elapsed
    assert report.work == pytest.approx(report.critical)
    assert "parallelism" in str(report)
    assert f"long 3, pushed at {__file__}" in str(report)


def test_the_serial_engine_shows_the_same(tmp_path: Path) -> None:
    with SerialEngine(log=True) as engine:
        A, B = engine.variable("A"), engine.variable("B")
        kept: list[Completion] = []
        engine.push_async(kept.append, mutate=[A], name="first")
        engine.push(lambda: time.sleep(0.01), read=[A], mutate=[B], name="second")
        graph = engine.graph()
        assert [(each.name, each.state) for each in graph.entries] == [("first", 2), ("second", 0)]
        assert [(edge.before, edge.after, edge.variable) for edge in graph.edges] == [(1, 2, "A")]
        kept.pop()()
        engine.wait(B)
        assert engine.graph().entries == []
        engine.trace(tmp_path / "trace.json")
        report = engine.report()
    events = json.loads((tmp_path / "trace.json").read_text())
    assert [event["name"] for event in events if event["ph"] == "X"] == ["first", "second"]
    assert [each.name for each in report.critical_path] == ["first", "second"]
    assert report.critical >= 0.01


def test_only_an_engine_that_keeps_a_log_can_tell() -> None:
    for kind in (Engine, SerialEngine):
        with kind(1) as engine, pytest.raises(ConfigError, match="log=True"):
            engine.report()


@pytest.mark.parametrize("how", ["lane", "accumulate"])
def test_the_critical_path_goes_through_lanes_and_turns(how: str) -> None:
    with Engine(4, log=True) as engine:
        options = {"lane": engine.lane("one", width=1)} if how == "lane" else {"accumulate": [engine.variable("A")]}
        for i in range(5):
            engine.push(lambda: time.sleep(0.01), name=f"number {i}", **options)
        engine.wait(deadline=20)
        report = engine.report()
    assert len(report.critical_path) == 5
    assert report.possible == pytest.approx(1.0)


def test_those_that_a_wide_lane_takes_at_once_are_not_one_after_the_other() -> None:
    meeting = threading.Barrier(2)
    with Engine(4, log=True) as engine:
        lane = engine.lane("two", width=2)
        for _ in range(6):
            engine.push(lambda: meeting.wait(20), lane=lane)
        engine.wait(deadline=20)
        report = engine.report()
    assert len(report.critical_path) == 3


def test_a_history_says_what_only_waits() -> None:
    entered, go = threading.Event(), threading.Event()
    with Engine(1, log=True) as engine:
        A = engine.variable("A")
        engine.push(lambda: (entered.set(), go.wait(20)), mutate=[A])
        assert entered.wait(20)
        engine.push(lambda: None, mutate=[A])
        engine.push(lambda: None)
        assert [STATES[each.state] for each in engine.history()] == ["runs", "waits", "may run"]
        go.set()


def test_a_history_may_collect_garbage_that_pushes() -> None:
    class Garbage:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            engine.push(nothing)

    with Engine(1, log=True) as engine:
        for _ in range(5000):
            engine.push(nothing)
        for _ in range(5):
            for _ in range(50):
                Garbage()
            assert len(engine.history()) >= 5000
        gc.collect()


def test_names_may_have_characters_that_xml_has_not() -> None:
    gate = Gate()
    with Engine(1) as engine:
        engine.push(gate, mutate=[engine.variable("v\x02")], name='evil\x01<&"\n]]>')
        ElementTree.fromstring(engine.graph().svg())
        gate.open()
