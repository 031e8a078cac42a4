"""How old a read may be. A clock is what a worker ends with ``table.clock()``."""

from __future__ import annotations

from typing import NamedTuple

from ..comm.arguments import whole
from ..errors import ConfigError

LOOSEST = 1 << 20


class Consistency(NamedTuple):
    """A kind, and the bound of staleness in clocks."""

    kind: str  # bsp, ssp, essp or asynchronous
    bound: int = 0

    @property
    def clocked(self) -> bool:
        return self.kind != "asynchronous"

    def __str__(self) -> str:
        return f"{self.kind}({self.bound})" if self.kind in ("ssp", "essp") else self.kind


KINDS = ("bsp", "ssp", "essp", "asynchronous")

bsp = Consistency("bsp")
"""Everybody reads what all had pushed by the beginning of the clock, bit for bit as one process would compute it."""

asynchronous = Consistency("asynchronous")
"""A push is applied when it arrives, a pull answered with what is there."""


def ssp(bound: int) -> Consistency:
    """A read at clock c has all updates of the clocks before c - bound, of everybody, and all of the worker's own."""
    return Consistency("ssp", _checked("ssp", bound))


def essp(bound: int) -> Consistency:
    """As ssp, but servers send what was read before to its readers whenever the slowest worker has moved on."""
    return Consistency("essp", _checked("essp", bound))


def _checked(kind: str, bound: int) -> int:
    number = whole(bound, f"{kind}({bound!r}): its bound")
    if not 0 <= number <= LOOSEST:
        raise ConfigError(f"{kind}({bound!r}): valid is a whole number of clocks from 0 to {LOOSEST}")
    return number
