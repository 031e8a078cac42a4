"""Sparse tables: rows of one width, by int64 keys, spread over the shards by a consistent hash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from ..errors import ConfigError
from .arguments import checked_keys, checked_target, converted, width_of
from .handle import Handle
from .reads import Read
from .table import Table, _bytes

if TYPE_CHECKING:
    from .. import _native


class SparseTable(Table):
    """Rows appear when they are first named, with their first values. Keys come in any order, and repeatedly."""

    def _measure(self, extent: Any) -> int:
        self.width = width_of(self.name, extent)
        return self.width

    def _given(self, values: Any) -> np.ndarray:
        raise ConfigError(f"table {self.name!r}: sparse rows start as a number or 'uniform', not as an array")

    def _make(self, extent: int) -> _native.SparseTable:
        return self._worker.sparse(self._number, **self._described, extent=extent, whole=0)

    def push(self, keys: ArrayLike, rows: ArrayLike, *, deadline: float | None = None) -> None:
        """Gradients for these rows; those of a key that is repeated are added up."""
        wanted = checked_keys(keys)
        asked = self._native.push(wanted, _bytes(self._rows(wanted, rows)))
        if not self.consistency.clocked:
            self._waiting.wait(self._under_way(asked), f"push {self._what}", deadline)

    def push_async(self, keys: ArrayLike, rows: ArrayLike) -> Handle[None]:
        """The same, without waiting. In an asynchronous table, the rows must stay as they are until the handle is done;
        in another one they were copied, and the handle is done with the clock."""
        wanted = checked_keys(keys)
        values = self._rows(wanted, rows)
        return self._pushed(self._native.push(wanted, _bytes(values)), values)

    @overload
    def pull(
        self,
        keys: ArrayLike,
        out: np.ndarray | None = None,
        *,
        info: Literal[False] = False,
        deadline: float | None = None,
    ) -> np.ndarray: ...
    @overload
    def pull(
        self, keys: ArrayLike, out: np.ndarray | None = None, *, info: Literal[True], deadline: float | None = None
    ) -> tuple[np.ndarray, Read]: ...
    def pull(
        self, keys: ArrayLike, out: np.ndarray | None = None, *, info: bool = False, deadline: float | None = None
    ) -> np.ndarray | tuple[np.ndarray, Read]:
        """One row for each key, in their order."""
        wanted, now = checked_keys(keys), self.now
        target = self._target(len(wanted), out)
        self._news()
        asked = self._native.pull(wanted, _bytes(target), info)
        self._waiting.wait(asked, f"pull {self._what}", deadline)
        self.reads.note(asked.read)
        return (target, self.reads.describe(now, asked.read)) if info else target

    def pull_async(self, keys: ArrayLike, out: np.ndarray | None = None) -> Handle[np.ndarray]:
        """A pull that goes on by itself."""
        wanted = checked_keys(keys)
        target = self._target(len(wanted), out)
        return self._pulled(self._native.pull(wanted, _bytes(target), False), "pull", target)

    def prefetch(self, keys: ArrayLike) -> Handle[None]:
        """Fetches rows that will be pulled; of use where reads may be stale, as these are served here."""
        asked = self._native.pull(checked_keys(keys), np.empty(0, np.uint8), False)
        return self._started(self._under_way(asked), "prefetch")

    def push_pull(
        self, keys: ArrayLike, rows: ArrayLike, out: np.ndarray | None = None, *, deadline: float | None = None
    ) -> np.ndarray:
        """A push, and a pull of what came of it."""
        wanted = checked_keys(keys)
        target = self._target(len(wanted), out)
        asked = self._under_way(self._native.push_pull(wanted, _bytes(self._rows(wanted, rows)), _bytes(target)))
        self._waiting.wait(asked, f"push_pull {self._what}", deadline)
        self.reads.note(asked.read)
        return target

    def push_pull_async(self, keys: ArrayLike, rows: ArrayLike, out: np.ndarray | None = None) -> Handle[np.ndarray]:
        """The same, without waiting; the handle's ``wait`` has the rows. In an asynchronous table the push is
        acknowledged then; in another one it was copied, and clock() acknowledges it."""
        wanted = checked_keys(keys)
        target, values = self._target(len(wanted), out), self._rows(wanted, rows)
        return self._pulled(self._native.push_pull(wanted, _bytes(values), _bytes(target)), "push_pull", target, values)

    def _rows(self, keys: np.ndarray, rows: ArrayLike) -> np.ndarray:
        values = converted(self.name, "rows", rows, self.dtype)
        if values.shape != (len(keys), self.width):
            raise ConfigError(
                f"table {self.name!r}: rows of shape {values.shape} for {len(keys)} keys of width {self.width}"
            )
        return values

    def _target(self, count: int, out: np.ndarray | None) -> np.ndarray:
        return checked_target(self.name, out, (count, self.width), self.dtype)
