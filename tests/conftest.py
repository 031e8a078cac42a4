"""How long randomised tests run (modestly; at full length where UNISONO_SOAK=1), and where failing ranks write."""

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings

SOAK = os.environ.get("UNISONO_SOAK") == "1"

# The usual run is the same every time; a soak searches anew and prints how to repeat what it finds.
settings.register_profile("ci", max_examples=50, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("soak", max_examples=5000, deadline=None, print_blob=True)
settings.load_profile("soak" if SOAK else "ci")

# Thousands of processes import the same modules. These are compiled once, also where Python is told not to keep it.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A run in the background ignores SIGINT, one by nohup SIGHUP, and so would the ranks that tests send these to.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


def pytest_collection_finish() -> None:
    """Thousands of tests stay to the end: those that collect garbage need not look at all of them each time."""
    gc.freeze()


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


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all ranks have to say the same about a failure: on a busy machine, one may be kept from answering for
    longer than the others wait for it, or be ended in the middle. For ranks in this process and its forks."""
    monkeypatch.setattr("unisono.comm.desk.SECONDS_TO_ANSWER", 10.0)
    monkeypatch.setattr("unisono.comm.lookout.PATIENCE_FOR_A_VERDICT", 30.0)
    monkeypatch.setattr("unisono.launcher.ending.Ending.__init__.__defaults__", (30.0,))


@pytest.fixture(scope="session", autouse=True)
def default_prices() -> Iterator[None]:
    """Whoever runs the tests may have tuned their machine: algorithms are chosen by default prices all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNISONO_MODEL", "off")
        yield
