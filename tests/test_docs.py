"""What the documentation shows is what happens."""

import inspect
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from tests.hostile.attacks import ATTACKS

import unisono
from unisono import errors
from unisono.cli.main import make_app
from unisono.comm import frames, strangers
from unisono.comm.handle import Handle
from unisono.config import read_settings
from unisono.schedule.catalog import algorithms
from unisono.schedule.conditions import COLLECTIVES

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_code_of_a_page_runs(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    for shown in re.findall(r"```output\n(.*?)```", text, flags=re.DOTALL):
        assert shown in run.stdout


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    if "import torch" in example.read_text(encoding="utf-8") and not find_spec("torch"):
        pytest.skip("torch is not installed")
    run = subprocess.run(
        [sys.executable, example, tmp_path / "out"], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout


@pytest.mark.parametrize(
    ("example", "said"), [("char_lm.py 3", "limited by"), ("data_parallel_numpy.py", "gives the same bits")]
)
def test_examples_train_on_two_ranks(example: str, said: str) -> None:
    if example.startswith("char_lm") and not find_spec("torch"):
        pytest.skip("torch is not installed")
    command = [Path(sys.executable).with_name("unisono"), "run", "-n", "2", *f"examples/{example}".split()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert said in run.stdout


def test_pictures_are_those_of_the_schedules() -> None:
    for file, document in runpy.run_path(str(ROOT / "examples" / "pictures.py"))["pictures"]().items():
        stored = (ROOT / "docs" / "pictures" / file).read_text(encoding="utf-8")
        assert stored == document, "run `.venv/bin/python examples/pictures.py`"


def test_the_readme_counts_the_catalogue() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{len(algorithms())} algorithms for {len(COLLECTIVES)} collectives" in text


def test_every_algorithm_has_its_cost_or_its_parts_documented() -> None:
    text = (ROOT / "docs" / "costs.md").read_text(encoding="utf-8")
    missing = {algorithm.name for algorithm in algorithms() if algorithm.name.split("_")[0] not in text}
    assert missing == set(), missing


def test_the_readmes_error_is_the_one_that_is_raised() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = (
        "import unisono\n"
        "from unisono.schedule import Get, Put, Span, rounds\n"
        "@unisono.register('allgather')\n"
        "def forgets_one(p, r):\n"
        "    t = rounds(max(p - 2, 0))\n"
        "    yield Put((r + 1) % p, Span((r - t) % p)), Get((r - 1) % p, Span((r - t - 1) % p))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.stderr.strip().splitlines()[-1].removeprefix("unisono.errors.") in text


API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def signature(function: Callable[..., Any]) -> str:
    """As one would write it down: names and defaults, without types."""
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        bare = str(parameter.replace(annotation=parameter.empty))
        parts.append(bare.replace(str(np.float32), "np.float32").replace("'", '"'))
    return ", ".join(part for part in parts if part != "self")


def public(thing: type) -> list[tuple[str, Callable[..., Any]]]:
    return [(name, method) for name, method in vars(thing).items() if not name.startswith("_") and callable(method)]


CALLS = [
    ("unisono.", "init", unisono.init),
    ("unisono.", "launch", unisono.launch),
    ("unisono.", "premultiplied_sum", unisono.premultiplied_sum),
    *(("comm.", *method) for method in public(unisono.Communicator) if not method[0].endswith("_async")),
    *(("handle.", *method) for method in public(Handle)),
]


@pytest.mark.parametrize(("owner", "name", "function"), CALLS, ids=[name for _, name, _ in CALLS])
def test_every_call_is_in_the_reference_with_its_signature(owner: str, name: str, function: Callable[..., Any]) -> None:
    assert f"`{owner}{name}({signature(function)})`" in API


def test_every_attribute_of_a_communicator_is_in_the_reference() -> None:
    with unisono.init() as comm:
        missing = [name for name in vars(comm) if not name.startswith("_") and f"`comm.{name}`" not in API]
    assert missing == []


def test_every_public_name_is_in_the_reference() -> None:
    assert [name for name in unisono.__all__ if not re.search(rf"\b{name}\b", API)] == []


def test_every_error_is_in_the_reference() -> None:
    kinds = [name for name, kind in vars(errors).items() if isinstance(kind, type)]
    assert [name for name in kinds if f"`{name}`" not in API] == []


class Asked(dict[str, str]):
    """An environment without variables, which remembers what it was asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return default


def test_the_variables_in_the_reference_are_those_that_are_read() -> None:
    environ = Asked()
    read_settings(environ=environ)
    table = API.partition("## Environment")[2].partition("\n`unisono run` sets")[0]
    asked = {name for name in environ.names if name.startswith("UNISONO_")}
    assert set(re.findall(r"UNISONO_\w+", table)) == asked
    assert len(asked) > 10


def commands(command: Any, name: str = "unisono") -> Iterator[tuple[str, set[str]]]:
    """Each command that does something, with its options. Spellings with an underscore are for who is used to them."""
    parts = getattr(command, "commands", {})
    for part in parts:
        yield from commands(parts[part], f"{name} {part}")
    if not parts:
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("-")}
        yield name, {option for option in options if "_" not in option} - {"--help"}


COMMANDS = dict(commands(typer.main.get_command(make_app())))


def test_there_are_commands() -> None:
    assert {"unisono run", "unisono lab up", "unisono trace merge", "unisono explain"} < set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_in_the_reference_are_those_of_the_command(command: str) -> None:
    section = re.split(r"\n##", API.partition(f"### {command}\n")[2])[0]
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", section.replace("`python -m`", ""))) == COMMANDS[command]


def test_the_limits_for_strangers_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    assert f"| {strangers.MOST} more than the job has ranks |" in page
    assert f"| {frames.MOST_FROM_STRANGERS >> 10} KiB |" in page
    assert f"| {strangers.PATIENCE:g} s, however busy it is |" in page
    assert f"in {len(ATTACKS)} ways" in page


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/life-of-an-allreduce.md"])
def test_the_files_that_a_page_names_are_there(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    files = [str(path) for folder in ("src", "native", "tests", "examples") for path in (ROOT / folder).rglob("*.*")]
    named = set(re.findall(r"`([\w/]+\.(?:py|cpp|hpp))`", text))
    assert len(named) > 10
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []
