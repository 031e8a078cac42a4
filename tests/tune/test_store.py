"""Models in files: written whole, read with suspicion."""

import json
import os
from pathlib import Path

import pytest

from unisono.errors import ConfigError
from unisono.tune.defaults import COSTS
from unisono.tune.model import Model
from unisono.tune.place import Place
from unisono.tune.store import file_of, fingerprint, has_any, load, save

MACHINE = ["a processor", 2, "6.1"]


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = file_of(tmp_path, "abc")
    model = Model({"wire": {"round": 1e-5, "wire_at_once": 8.25e-9}}, {"float32 sum": 3e-11}, {"host0": 1e8})
    assert not has_any(tmp_path)
    save(path, model, {"unisono": "1"})
    assert has_any(tmp_path)
    found = load(path)
    assert found.costs["wire"] == model.costs["wire"]
    assert found.costs["tcp"] == COSTS["tcp"], "what was not measured is as by default"
    assert (found.rates, found.gamma_of("float32", "sum"), found.origin) == ({"host0": 1e8}, 3e-11, str(path))
    assert os.listdir(path.parent) == [path.name], "nothing else is left"


BROKEN = {
    "empty": "",
    "no JSON": "{",
    "deep": "[" * 100_000,
    "a list": "[]",
    "another format": '{"format": 99}',
    "a long number": '{"format": 2, "costs": {"wire": {"round": ' + "9" * 5000 + "}}}",
    "negative": '{"format": 2, "costs": {"wire": {"round": -1}}}',
    "not finite": '{"format": 2, "costs": {"wire": {"round": NaN}}}',
    "a word": '{"format": 2, "costs": {"wire": {"round": "1"}}}',
    "true": '{"format": 2, "costs": {"wire": {"round": true}}}',
    "all free": '{"format": 2, "costs": {"wire": {"round": 0}}}',
    "unknown price": '{"format": 2, "costs": {"wire": {"sound": 1}}}',
    "unknown kind": '{"format": 2, "costs": {"wires": {}}}',
    "rates": '{"format": 2, "rates": [1]}',
    "too long": '{"format": 2}' + " " * (1 << 20),
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_an_error_of_one_line_that_names_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "nothing"):
        with pytest.raises(ConfigError, match="cannot be read"):
            load(path)


def test_a_model_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be written"):
        save(file_of(tmp_path, "abc"), Model(), {})


def test_clusters_that_differ_have_different_files() -> None:
    assert fingerprint("1", [MACHINE] * 4, ["a"] * 4) == fingerprint("1", [MACHINE], ["b"])
    clusters = [
        fingerprint("1", [MACHINE], ["a"]),
        fingerprint("2", [MACHINE], ["a"]),
        fingerprint("1", [["a processor", 4, "6.1"]], ["a"]),
        fingerprint("1", [MACHINE] * 2, ["a", "b"]),
        fingerprint("1", [MACHINE] * 2, ["a", "c"]),
    ]
    assert len(set(clusters)) == len(clusters)


def test_only_wires_that_differ_by_more_than_noise_make_a_place_unequal() -> None:
    place, names = Place((1, 1, 1), 2), ["a", "b", "c"]
    assert Model(rates={"a": 1e8, "b": 1.05e8, "c": 1e8}).at(place, names) == place
    assert Model(rates={"a": 1e8, "b": 1e8}).at(place, names) == place, "one is not known"
    assert Model(rates={"a": 1e8, "b": 1e8, "c": 0.25e8}).at(place, names).slow == (16, 16, 64)


def test_facts_survive_json() -> None:
    assert Model.read(json.loads(json.dumps(Model().facts()))).costs == Model().costs
