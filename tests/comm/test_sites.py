"""The line that is named is the user's."""

from types import FunctionType

from unisono.comm import sites
from unisono.comm.sites import Sites


def written(text: str, file: str | None) -> FunctionType:
    """A function that was made from text, by a module of this file."""
    names = {"numbers": Sites(), **({"__file__": file} if file else {})}
    exec(text, names)
    return names["calls"]  # type: ignore[return-value]


def test_code_that_our_modules_have_written_is_passed_over() -> None:
    text = "def calls():\n    return numbers.name(numbers.caller(1)), numbers.at(calls.__code__, 0)"
    ours = written(text, sites.PACKAGE + "train/under_way.py")
    name, number = ours()
    assert name.startswith(__file__)
    assert number == sites.UNKNOWN
    for theirs in (written(text, None), written(text, __file__)):
        name, number = theirs()
        assert name == "<string>:2"
        assert number != sites.UNKNOWN
