"""Files that a person wants written: looked at before anything takes long."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ..errors import ConfigError


def require_writable(*paths: Path | None) -> None:
    """Could these be written, as far as one can tell without touching them?"""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise _refusal(path, os.strerror(errno.EISDIR))
        if not path.parent.is_dir():
            raise _refusal(path, os.strerror(errno.ENOENT))
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise _refusal(path, os.strerror(errno.EACCES))


def write(path: Path, text: str) -> None:
    """Write a picture or a trace."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _refusal(path, error.strerror or str(error)) from error


def _refusal(path: Path, why: str) -> ConfigError:
    return ConfigError(f"cannot write {path}: {why}")
