"""Calls of a communicator as operations: started when the variables allow it, they run on the communicator's own thread
without the interpreter, and hold none of the engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..comm.handle import Handle, Started

if TYPE_CHECKING:
    from .._native import Token, Variable
    from ..comm.communicator import Communicator

PAIRWISE = ("send", "recv", "sendrecv")


class Starter:
    """Starts one call, and has its end complete the operation."""

    def __init__(
        self, comm: Communicator, call: str, arguments: Sequence[Any], options: Mapping[str, Any], tag: str
    ) -> None:
        self._comm, self._call, self._arguments, self._options = comm, call, arguments, options
        self._tag = tag
        self._site = comm._runner.flight.sites.caller(depth=4)  # above this, push_call, and the method

    def __call__(self, token: Token) -> None:
        end_with(self._comm._start(self._call, self._arguments, self._options, self._site, self._tag), token)


def end_with(handle: Handle, token: Token) -> None:
    """Have the operation end when the call does, as it does."""
    pending = handle.pending
    if isinstance(pending, Started):
        token.complete_with(pending.ticket, handle.wait)
    else:
        pending.when_done(lambda: _complete(token, handle))


def _complete(token: Token, handle: Handle) -> None:
    try:
        token.complete(handle.wait())
    except Exception as error:
        token.fail(error)


def tag_of(call: str, name: str | None, uses: Sequence[Sequence[Variable]]) -> str:
    """What the ranks compare besides the arguments: the names of the operation's variables that were given by the
    program, or its own name. Sender and receiver use different variables, so that only the latter counts there."""
    if name or call in PAIRWISE:
        return name or ""
    modes = ("reads", "mutates", "accumulates")
    named = [
        f"{mode} {', '.join(names)}"
        for mode, variables in zip(modes, uses, strict=True)
        if (names := [variable.name for variable in variables if variable.is_named])
    ]
    return " and ".join(named)
