"""Keeps the memory of gradients in the process.

Backward makes each gradient anew, and its memory is free again when it has been copied to where it is reduced. What is
free at the end of the heap, glibc gives back to the system, and gets it again in the next step: page by page, which
takes longer than the copy. Whether it lies at the end is chance.
"""

from __future__ import annotations

import ctypes

from ..config import allocator_is_chosen

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MOST_TO_KEEP = (1 << 31) - 1  # bytes
LARGEST_IN_HEAP = 32 << 20  # the most that glibc takes; larger ones are always given back


def keep_freed_memory() -> None:
    """From here on, unless whoever started the process has chosen how memory is allocated."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None and not allocator_is_chosen():
        set_option(M_MMAP_THRESHOLD, LARGEST_IN_HEAP)  # first: the other one ends its adaptation
        set_option(M_TRIM_THRESHOLD, MOST_TO_KEEP)
