"""Servers in this process have descriptors, which refused calls keep alive in tracebacks: other tests count these."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    yield
    gc.collect()
