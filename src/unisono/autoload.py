"""What torch calls at the end of `import torch`, by our entry point. It must not fail: torch could not be imported."""

from __future__ import annotations

import logging


def register_with_torch() -> None:
    """Make "unisono" known to torch.distributed, or leave a line in the log why not."""
    try:
        from . import torch as _  # noqa: F401
    except Exception as error:
        log = logging.getLogger("unisono")
        log.warning("unisono cannot be a backend of torch.distributed here: %s", error)
