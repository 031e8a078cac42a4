"""What the documentation shows is what happens."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from unisono.schedule.catalog import algorithms
from unisono.schedule.conditions import COLLECTIVES

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_code_of_a_page_runs(page: Path) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, example, tmp_path / "out"], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout


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
