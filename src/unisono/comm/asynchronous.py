"""``comm.allreduce_async(x)``: calls that go on by themselves, also as operations of a dependency engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ConfigError

if TYPE_CHECKING:
    from .communicator import Communicator


class Engine(Protocol):
    """What orders calls by the data that they use."""

    def push_call(
        self,
        comm: Communicator,
        call: str,
        arguments: Sequence[Any],
        options: Mapping[str, Any],
        *uses: Sequence[Any],
        **push: Any,
    ) -> Any: ...


def asynchronous(*calls: str) -> list[Callable[..., Any]]:
    """Methods of the communicator that start these."""
    return [_starting(call) for call in calls]


def _starting(call: str) -> Callable[..., Any]:
    def start(
        comm: Communicator,
        *arguments: Any,
        engine: Engine | None = None,
        read: Sequence[Any] = (),
        mutate: Sequence[Any] = (),
        accumulate: Sequence[Any] = (),
        lane: Any = None,
        bytes: int | None = None,
        priority: int = 0,
        name: str | None = None,
        **options: Any,
    ) -> Any:
        if engine is not None:
            push = {"lane": lane, "bytes": bytes, "priority": priority, "name": name}
            return engine.push_call(comm, call, arguments, options, read, mutate, accumulate, **push)
        if read or mutate or accumulate or lane or priority or name:
            raise ConfigError(f"{call}_async: read, mutate and the like are for an engine=, which is not given")
        return comm.start(call, *arguments, **options)

    start.__name__ = f"{call}_async"
    start.__qualname__ = f"Communicator.{call}_async"
    start.__doc__ = f"""Start ``{call}``, and come back at once with a handle; with ``engine=``, push it.

    An operation takes what ``engine.push`` takes, and mutates the communicator's own variable besides, so that its
    calls keep their order. The ranks compare the names of its variables, or ``name=`` instead.
    """
    return start
