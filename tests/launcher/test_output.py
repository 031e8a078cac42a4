"""Lines are cut the same way, however their bytes arrive."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from unisono.launcher.output import LONGEST, Lines

TEXT = st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r", b"\r\n", b"\xff"])).map(b"".join)


def cut(text: bytes, *places: int) -> list[bytes]:
    lines = Lines()
    ends = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    found = [line for a, b in pairwise(ends) for line in lines.feed(text[a:b])]
    return found + lines.finish()


@given(TEXT, st.lists(st.integers(0)))
def test_lines_do_not_depend_on_how_they_arrive(text: bytes, places: list[int]) -> None:
    assert [line.rstrip(b"\r\n") for line in cut(text, *places)] == [line.rstrip(b"\r\n") for line in cut(text)]


@given(TEXT, st.lists(st.integers(0)))
def test_no_text_is_lost_and_every_line_ends(text: bytes, places: list[int]) -> None:
    lines = cut(text, *places)
    assert all(line.endswith((b"\n", b"\r")) for line in lines)
    assert b"".join(lines).translate(None, b"\r\n") == text.translate(None, b"\r\n")
    assert sum(line.endswith(b"\n") for line in lines) >= text.count(b"\n")


def test_a_long_line_is_broken() -> None:
    lines = Lines()
    found = [line for _ in range(40) for line in lines.feed(b"y" * 65536)]
    assert [len(line) > LONGEST for line in found] == [True, True]
    assert all(line.endswith(b"y\n") for line in found)
