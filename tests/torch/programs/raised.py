"""What has to be raised, by when."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any


@contextmanager
def raised(kind: str, *words: str) -> Any:
    from unisono import errors

    begun = time.monotonic()
    try:
        yield
    except getattr(errors, kind) as error:
        text = str(error)
        missing = [word for word in words if word not in text]
        assert not missing, f"{missing} not in: {text}"
        assert time.monotonic() - begun < 60
    else:
        raise AssertionError(f"no {kind}")
