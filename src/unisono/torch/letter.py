"""A message to or from another rank, under way, as torch wants it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from math import inf
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed import Work
from torch.futures import Future

from ..errors import DeadlineExceeded, UnisonoError
from .errands import waiting_in
from .tensors import cargo, contiguous, to_fill
from .wheel import Wheel
from .work import FOR_EVER


class Letter(Work):
    """Sent to a rank, or awaited from one, or from any if that is None. The post says when it is through."""

    def __init__(
        self,
        tensor: Tensor,
        peer: int | None,
        tag: int,
        wheel: Wheel,
        *,
        sends: bool,
        seconds: float,
        line: str,
        awaited: Sequence[int],
    ) -> None:
        """``awaited`` is the peer as all ranks count, or nobody where any may come."""
        super().__init__()
        self._wheel = wheel
        self.peer, self.tag, self.sends = peer, tag, sends
        self._tensor = tensor
        dense, self._finish = (contiguous(tensor.detach()), None) if sends else to_fill(tensor)
        self.room = _bytes(cargo(dense))
        self.address = dense.data_ptr()
        self.until = monotonic() + seconds
        self._awaited = awaited
        self._line, self._begun = line, monotonic()
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._source = -1
        self._future: Any = None
        self._is_told = False
        self._telling = threading.Lock()

    def __str__(self) -> str:
        where = f", called at {self._line}" if self._line else ""
        return f"{self._what()}{where}"

    def _what(self) -> str:
        verb, word = ("send", "to") if self.sends else ("recv", "from")
        whom = "any rank" if self.peer is None else f"rank {self.peer}"
        return f"{verb} {word} {whom} with tag {self.tag}"

    # For the post

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    def end(self, source: int, error: Exception | None = None) -> None:
        """It is through, or will never be; only the first word counts."""
        if not self._ended.is_set():
            self._source, self._error = source, error
            self._ended.set()

    def tell(self) -> None:
        """Complete its future, if it is through and somebody has asked for one."""
        with self._telling:
            if not self._ended.is_set() or self._future is None or self._is_told:
                return
            self._is_told = True
        try:
            self._future.set_result(self.result())
        except Exception as error:
            self._future.set_exception(error)

    def failed(self, cause: UnisonoError) -> UnisonoError:
        """The same error, from this call."""
        error = type(cause)(f"{cause} This ended {self}.")
        error.ranks = cause.ranks
        return error

    def late(self) -> DeadlineExceeded:
        return DeadlineExceeded(f"{self} was not through after {monotonic() - self._begun:.3g} s")

    # For torch

    def wait(self, timeout: timedelta = FOR_EVER) -> bool:
        seconds = timeout.total_seconds() if timeout > FOR_EVER else inf
        if not self._ended.is_set():
            with waiting_in(self._what(), self._line, f"letter {id(self)}", self._awaited):
                if not self._wheel.wait(self._ended, seconds):
                    raise DeadlineExceeded(f"{self} was not through after {seconds:g} s; it goes on")
        if self._error:
            raise self._error
        with self._telling:
            finish, self._finish = self._finish, None
            if finish:
                finish()
        return True

    def is_completed(self) -> bool:
        return self.ended

    def is_success(self) -> bool:
        return self.ended and self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[Tensor]:
        self.wait()
        return [self._tensor]

    def source_rank(self) -> int:
        """Of the group: who sent it."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Any:
        with self._telling:
            if self._future is None:
                self._future = Future()
        self.tell()
        return self._future


def _bytes(values: NDArray[Any]) -> memoryview:
    whole: Any = values.view(np.uint8) if values.size else bytearray()
    return memoryview(whole)
