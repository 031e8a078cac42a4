"""Data-parallel training: gradients in buckets, each averaged over the ranks while backward goes on."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model import DataParallel as DataParallel
    from .report import Report as Report
    from .shares import shares as shares
    from .sync import GradientSync as GradientSync

# Imported when first used: only DataParallel needs torch.
_HOME = {"DataParallel": "model", "GradientSync": "sync", "Report": "report", "shares": "shares"}
__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'unisono.train' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
