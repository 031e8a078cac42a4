"""What a method of the communicator asks to be run, and how methods that ask for one thing are made or started."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import update_wrapper
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from .._native import method
from .arrays import Array
from .call import Call
from .prepared import Shape

if TYPE_CHECKING:
    from .communicator import Communicator

P = ParamSpec("P")
T = TypeVar("T")


class Collective(NamedTuple):
    """A call of all ranks."""

    call: Call
    source: Array
    target: Array
    shape: Shape
    deadline: float

    @property
    def name(self) -> str:
        return self.call.collective

    def tagged(self, tag: str) -> Collective:
        """The same, under a name that the ranks compare."""
        return self._replace(call=replace(self.call, tag=tag)) if tag else self


class Exchange(NamedTuple):
    """Send x to one rank and receive out from another; either may be left out."""

    x: Array | None
    to: int | None
    out: Array | None
    origin: int | None
    deadline: float
    tag: str = ""

    def tagged(self, tag: str) -> Exchange:
        """The same, under a name that both ranks compare."""
        return self._replace(tag=tag)

    @property
    def fingerprint(self) -> int:
        """A number of what both ranks have to agree on."""
        array = self.x or self.out
        digest = blake2b(self.tag.encode(), digest_size=6).digest() if self.tag else b""
        return (array.code if array else 0) + (int.from_bytes(digest, "little") << 8)

    @property
    def name(self) -> str:
        return "sendrecv" if self.x and self.out else "send" if self.x else "recv"


Request = Collective | Exchange
Steps = Generator[Request, None, T]
"""Up to its yield, a method checks its arguments; from there on, when that has run, it makes the result."""


def one_call(
    steps: Callable[Concatenate[Communicator, P], Steps[T]],
) -> Callable[Concatenate[Communicator, P], T]:
    """A method that makes one call. ``start`` finds its steps, and runs what they ask for later."""

    def now(comm: Communicator, /, *arguments: P.args, **options: P.kwargs) -> T:
        rest = steps(comm, *arguments, **options)
        try:
            request = next(rest)
        except StopIteration as end:  # there was nothing to ask for
            return end.value  # type: ignore[no-any-return]
        comm._runner.run(request)
        return finished(rest)

    fast = method(now)
    update_wrapper(fast, steps).steps = steps  # type: ignore[attr-defined]
    return fast  # type: ignore[no-any-return]


def finished(rest: Steps[T]) -> T:
    """The result, after what was asked for has run."""
    try:
        next(rest)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a method that makes one call asked for another one")


def steps_of(method: Any) -> Callable[..., Steps[Any]] | None:
    """How the method goes, if it makes one call."""
    return getattr(method, "steps", None)
