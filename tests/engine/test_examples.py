"""The examples of engines give what they say."""

from pathlib import Path

from tests.launcher.processes import run

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_lecture_has_an_allreduce_in_the_middle() -> None:
    done = run("-n", 2, EXAMPLES / "engine_lecture.py")
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert f"rank {rank}: D = A · B = 6\n" in done.stdout, "2 · (2 + 1)"
        assert f"rank {rank}: D = A · (sum of B over 2 ranks) = 14\n" in done.stdout, "2 · ((2 + 1) + (2 + 2))"
