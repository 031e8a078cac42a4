"""Engines, and what tests push into them."""

from collections.abc import Iterator
from typing import Any

import pytest

from unisono.engine import Engine, SerialEngine


@pytest.fixture(params=[Engine, SerialEngine])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param(3) as engine:
        yield engine


@pytest.fixture
def parallel() -> Iterator[Engine]:
    with Engine(3) as engine:
        yield engine
