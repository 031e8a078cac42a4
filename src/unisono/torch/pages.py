"""Large pages for tensors that are reduced again and again, as DDP does with its buckets.

On one host, a long tensor is read and written where it is, by the system, which looks up page after page; so does who
copies gradients into it and out of it. In pages of 2 MiB, that is 512 times less often. A tensor that comes for the
second time is moved there, once; where the system cannot, it stays as it is.
"""

from __future__ import annotations

import ctypes
import threading

from torch import Tensor

PAGE = 2 << 20
LONG = 4 << 20
"""Bytes of a tensor that is worth it."""

MADV_COLLAPSE = 25  # Linux 6.1
MOST_KNOWN = 1024

_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Pages:
    """Of the tensors of one group."""

    def __init__(self) -> None:
        self._calls: dict[tuple[int, int], int] = {}  # by address and size
        self._counting = threading.Lock()

    def use(self, tensor: Tensor) -> None:
        """Before a call reads or writes it."""
        if tensor.nbytes < LONG:
            return
        key = tensor.data_ptr(), tensor.nbytes
        with self._counting:
            if len(self._calls) >= MOST_KNOWN:
                self._calls.clear()
            calls = self._calls[key] = self._calls.get(key, 0) + 1
        if calls == 2:
            enlarge_pages(*key)


def enlarge_pages(address: int, size: int) -> None:
    """Of what lies in whole large pages."""
    first, end = -(-address // PAGE) * PAGE, (address + size) // PAGE * PAGE
    if end > first:
        _madvise(first, end - first, MADV_COLLAPSE)
