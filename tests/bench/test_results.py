"""What is kept of a run, and how it is shown."""

import json
from pathlib import Path

import pytest
from tests.bench.runs import measured, results_of

from unisono.bench.cells import Cell, plan_cells
from unisono.bench.plot import draw
from unisono.bench.ratios import standings, summary
from unisono.bench.reference import Reference, deviations, read_reference
from unisono.bench.results import Failure, Results, from_json
from unisono.cli.scores import judge_quietness, show_scores
from unisono.errors import ConfigError

REFERENCES = sorted((Path(__file__).parents[2] / "benchmarks" / "reference").glob("*.json"))


@pytest.fixture
def some() -> Results:
    sizes = [8, 1024, 1 << 20]
    figures = [
        measured(name, base * size**0.5 * (1 + number / 10), round=number, bytes=size, ranks=ranks, algorithm=algorithm)
        for name, base, algorithm in (("unisono", 1.0, "ring"), ("impi", 2.0, None), ("openmpi", 3.0, None))
        for number in range(3)
        for size in sizes
        for ranks in (2, 4)
    ]
    figures += [measured(name, 5.0, collective="barrier", variant="oop", bytes=0) for name in ("unisono", "impi")]
    failure = Failure(round=1, contestant="openmpi", ranks=2, what="was killed by SIGSEGV", lines=["[vm] *** bang"])
    return results_of(*figures, failures=[failure])


def test_results_survive_json(some: Results) -> None:
    text = some.to_json(summary(some))
    assert from_json(text, "a file") == some
    first = json.loads(text)["summary"][0]
    assert first["ratio"]["median"] == pytest.approx(0.5)
    assert first["algorithm"] == "ring"


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 99}', '{"format": 1, "links": 3}'])
def test_what_is_not_ours_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"a file is not what `unisono bench --json` prints"):
        from_json(text, "a file")


def test_the_table_has_a_row_for_each_size_with_ratio_bandwidth_and_algorithm(
    some: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    show_scores(some)
    lines = capsys.readouterr().out.splitlines()
    assert "allreduce in place, 4 ranks, float32, links auto" in lines
    row = next(" ".join(line.split()) for line in lines if line.strip().startswith("1 MiB"))
    # On 2 ranks as much is on the bus.
    assert row == "1 MiB unisono 1.13 ms 0.931 0.931 0.50 0.50 – 0.50 ring 2.25 ms 3.38 ms"
    barrier = next(" ".join(line.split()) for line in lines if line.strip().startswith("–"))
    assert barrier == "– unisono 5 µs 1.00 1.00 – 1.00 5 µs –"
    assert "openmpi on 2 ranks was killed by SIGSEGV, and is left out of round 2:" in lines
    assert "    [vm] *** bang" in lines


def test_figures_that_are_not_those_of_the_reference_are_told(some: Results) -> None:
    known = {"allreduce/in-place/auto/2/8/impi": 2 * 8**0.5 * 1.2, "allreduce/in-place/auto/2/1024/openmpi": 10.0}
    assert judge_quietness(some, Reference("a quiet one", known)) == [
        "the machine is not quiet, or another one: 1 of 2 figures of peers are not within 30% of a quiet one",
        "    openmpi, allreduce in place, 2 ranks, 1 KiB: 106 µs, known 10 µs",
    ]


def test_a_deviation_is_one_in_either_direction(some: Results) -> None:
    found = standings(some)
    for known, off in ((6.3, False), (5.0, False), (4.0, True), (10.0, True)):  # it took 6.22 µs
        reference = Reference("", {"allreduce/in-place/auto/2/8/impi": known})
        assert [bool(some_off) for some_off in deviations(found, reference, "staged")[:1]] == [off]
        assert deviations(found, reference, "tcp") == ([], 0)


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.name)
def test_the_references_name_cells_that_exist(path: Path) -> None:
    reference = read_reference(path)
    assert len(reference.microseconds) > 100
    for key, microseconds in reference.microseconds.items():
        collective, variant, links, ranks, nbytes, peer = key.split("/")
        (cell,) = plan_cells([collective], variant, [int(ranks)], [int(nbytes)])
        assert reference.find(cell, links, peer) == microseconds > 0


def test_there_is_a_reference() -> None:
    assert REFERENCES


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_is_drawn(some: Results, ending: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'unisono[bench]'")
    path = tmp_path / f"picture.{ending}"
    draw(some, path)
    start = path.read_bytes()[:400]
    assert start.startswith(b"\x89PNG") if ending == "png" else b"<svg" in start or b"<?xml" in start


def test_a_picture_of_an_unknown_kind_is_refused(some: Results, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'unisono[bench]'")
    with pytest.raises(ConfigError, match=r"picture\.nothing: a picture ends with one of .*\.png"):
        draw(some, tmp_path / "picture.nothing")


def test_the_usual_variant_is_in_place_where_there_is_one() -> None:
    assert plan_cells(["allreduce", "barrier"], None, [2], [8, 16]) == [
        Cell("allreduce", "in-place", 2, 8),
        Cell("allreduce", "in-place", 2, 16),
        Cell("barrier", "oop", 2, 0),
    ]
