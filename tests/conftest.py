"""How long randomised tests run (modestly; at full length where UNISONO_SOAK=1), and where failing ranks write."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

SOAK = os.environ.get("UNISONO_SOAK") == "1"

# The usual run is the same every time; a soak searches anew and prints how to repeat what it finds.
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("soak", max_examples=5000, deadline=None, print_blob=True)
settings.load_profile("soak" if SOAK else "ci")


# A run in the background ignores SIGINT, one by nohup SIGHUP, and so would the ranks that tests send these to.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="session")
def soak() -> bool:
    """Whether this run is a soak, for tests that count their own repetitions."""
    return SOAK


@pytest.fixture(scope="session", autouse=True)
def dump_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Many tests let ranks fail: what these write about it is removed with the other files of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNISONO_DUMP", str(tmp_path_factory.mktemp("dumps")))
        yield
