"""Which gradients have come, in one step."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from ..errors import ConfigError
from .layout import Bucket, Parameter


class State(Enum):
    """Of one gradient's place."""

    EMPTY = auto()  # nothing of this step
    HELD = auto()  # accumulated, and more may come
    READY = auto()  # not to be touched until it is averaged


class Places:
    """The state of all places. A parameter with several names is ready when a gradient has come for each of them."""

    def __init__(self, parameters: Sequence[Parameter], buckets: Sequence[Bucket]) -> None:
        self._parameter_of = {name: parameter for parameter in parameters for name in parameter.names}
        self._bucket_of = {name: number for number, bucket in enumerate(buckets) for name in bucket.starts}
        self._gradients = [len(bucket.starts) for bucket in buckets]
        self.reset()

    def reset(self) -> None:
        """For the next step."""
        self._state = dict.fromkeys(self._bucket_of, State.EMPTY)
        self._names_left: dict[str, set[str]] = {}
        self._carried: set[str] = set()
        self.left = list(self._gradients)  # how many each bucket waits for
        self.came: list[str] = []  # in this order

    def parameter(self, name: str) -> Parameter:
        if name not in self._parameter_of:
            raise ConfigError(f"there is no parameter {name!r}; there are {', '.join(self._parameter_of)}")
        return self._parameter_of[name]

    def state(self, parameter: Parameter) -> State:
        return self._state[parameter.name]

    def hold(self, parameter: Parameter) -> None:
        """Its place has something of this step."""
        self._state[parameter.name] = State.HELD

    def carry(self, parameter: Parameter) -> None:
        """Its place has something that counts, though nothing came in this step."""
        self._carried.add(parameter.name)

    def ready(self, name: str, *, complete: bool = False) -> None:
        """The gradient for this name is in its place; ``complete`` if it is that for all names of the parameter."""
        parameter = self.parameter(name)
        if len(parameter.names) > 1 and not complete:
            left = self._names_left.setdefault(parameter.name, set(parameter.names))
            left.discard(name)
            if left:
                self._state[parameter.name] = State.HELD
                return
        self.came.append(parameter.name)
        self._become_ready(parameter.name)

    def finish(self) -> tuple[list[str], list[str]]:
        """No more will come: which parameters are unused, and which of these have places to be emptied."""
        unused = [name for name, state in self._state.items() if state is State.EMPTY]
        for name, state in list(self._state.items()):
            if state is not State.READY:
                self._become_ready(name)
        return unused, [name for name in unused if name not in self._carried]

    def _become_ready(self, name: str) -> None:
        self._state[name] = State.READY
        self.left[self._bucket_of[name]] -= 1
