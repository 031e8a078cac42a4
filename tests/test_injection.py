"""What UNISONO_INJECT may say, and what it may not."""

import pytest

from unisono.config import read_settings
from unisono.errors import ConfigError
from unisono.injection import Action, Injection

PLACE = {"UNISONO_RANK": "1", "UNISONO_SIZE": "4", "UNISONO_RENDEZVOUS": "localhost:5", "UNISONO_KEY": "k" * 16}


def read(text: str) -> tuple[Injection, ...]:
    return read_settings(environ=PLACE | {"UNISONO_INJECT": text}).inject


def test_a_failure_is_read_with_its_rank_call_and_round() -> None:
    assert read("kill rank=2 call=812 round=4") == (Injection(Action.KILL, rank=2, call=812, round=3),)


def test_it_is_the_first_round_of_the_first_call_if_nothing_else_is_said() -> None:
    assert read("DROP rank=3") == (Injection(Action.DROP, rank=3, call=0, round=0),)


def test_several_failures_are_separated_by_semicolons() -> None:
    assert read(" stall rank=0 ; delay seconds=0.5 rank=1 call=2;stall rank=2 seconds=3; ") == (
        Injection(Action.STALL, 0),
        Injection(Action.DELAY, 1, call=2, seconds=0.5),
        Injection(Action.STALL, 2, seconds=3.0),
    )


def test_nothing_is_injected_unless_somebody_asks_for_it() -> None:
    assert read("") == ()
    assert read_settings(environ={}).inject == ()


def test_an_argument_counts_more_than_the_variable() -> None:
    settings = read_settings(inject="kill rank=0", environ=PLACE | {"UNISONO_INJECT": "nonsense"})
    assert settings.inject == (Injection(Action.KILL, 0),)


NONSENSE = [
    ("kil rank=2", "'kil' is not an action, valid is one of kill, stall, delay, drop; did you mean 'kill'?"),
    ("rank=2", "'rank=2' is not an action"),
    ("kill", "which rank is this for? Write it as in 'kill rank=2 call=812 round=4'"),
    ("kill rank=4", "rank='4': valid is a whole number from 0 to 3"),
    ("kill rank=-1", "rank='-1': valid is a whole number from 0 to 3"),
    ("kill rank=1 call=x", "call='x': valid is a whole number from 0 up"),
    ("kill rank=1 round=1.5", "round='1.5': valid is a whole number from 1 up"),
    ("kill rank=1 rank=2", "rank= is given twice"),
    ("kill rank=1 runde=2", "'runde=2' is not understood, valid is one of rank=, call=, round=, seconds="),
    ("kill rank=1 rond=2", "did you mean 'round'?"),
    ("kill rank = 1", "'rank' is not understood"),
    ("kill rank=1 drop rank=2", "a semicolon before the next failure"),
    ("kill rank=1 seconds=2", "a kill takes no time; only delay and stall have seconds"),
    ("drop rank=1 seconds=2", "a drop takes no time"),
    ("delay rank=1", "how long? Write it as in 'delay rank=2 seconds=3'"),
    ("delay rank=1 seconds=soon", "seconds='soon': valid is a number of seconds above 0"),
    ("delay rank=1 seconds=0", "seconds='0': valid is a number of seconds above 0"),
    ("delay rank=1 seconds=nan", "seconds='nan': valid"),
    ("delay rank=1 seconds=1e9", "seconds='1e9': valid is at most 86400, a day"),
    ("kill rank=1, drop rank=2", "'drop' is not understood, valid is one of rank=, call=, round=, seconds="),
]


@pytest.mark.parametrize(("text", "hint"), NONSENSE, ids=[text for text, _ in NONSENSE])
def test_nonsense_is_refused_with_what_is_valid(text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"stall rank=0; {text}")
    assert str(caught.value).startswith(f"UNISONO_INJECT: {text!r}: ")
    assert hint in str(caught.value)
