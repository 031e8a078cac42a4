"""Large pages for tensors that are reduced again and again."""

import ctypes
import errno
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from unisono.torch import pages  # noqa: E402


def large() -> int:
    """KiB of this process that are in large pages."""
    found = re.search(r"AnonHugePages:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    return int(found.group(1)) if found else 0


def require_large_pages() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    tensor = torch.ones(4 << 20)
    first = -(-tensor.data_ptr() // pages.PAGE) * pages.PAGE
    if libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(pages.PAGE), pages.MADV_COLLAPSE):
        pytest.skip(f"the system makes no large pages: {errno.errorcode[ctypes.get_errno()]}")


def test_a_long_tensor_that_comes_again_is_moved_to_large_pages_and_keeps_its_values() -> None:
    require_large_pages()
    tensor, known = torch.arange(8 << 20, dtype=torch.float32), pages.Pages()
    before = large()
    known.use(tensor)
    assert large() == before, "it may never come again"
    known.use(tensor)
    assert large() >= before + 28 * 1024
    assert torch.equal(tensor, torch.arange(8 << 20, dtype=torch.float32))


def test_what_the_system_refuses_stays_as_it_is() -> None:
    pages.enlarge_pages(1 << 46, 64 << 20)  # nobody's memory
    short, known = torch.ones(1000), pages.Pages()
    for _ in range(3):
        known.use(short)
    assert short.sum() == 1000
