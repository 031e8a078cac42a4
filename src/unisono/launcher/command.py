"""What to execute for the words that follow ``unisono run``."""

from __future__ import annotations

import difflib
import shutil
import sys
from pathlib import Path

from ..errors import ConfigError


def resolve_command(words: list[str], *, module: bool = False) -> list[str]:
    """Python for a script or a module; anything else is an executable."""
    if not words:
        raise ConfigError("nothing to run; write unisono run -n 4 train.py")
    program, *arguments = words
    if module:
        return [sys.executable, "-m", *words]
    if program.endswith(".py"):
        if not Path(program).is_file():
            raise ConfigError(f"there is no script {program!r}{_hint(Path(program))}")
        return [sys.executable, *words]
    found = shutil.which(program)
    if found is None:
        what = "is not executable" if Path(program).exists() else "is neither a .py file nor a command"
        raise ConfigError(f"cannot run {program!r}: it {what}{_hint(Path(program))}")
    return [found, *arguments]


def _hint(path: Path) -> str:
    scripts = [str(file) for file in path.parent.glob("*.py")]
    near = difflib.get_close_matches(str(path), scripts, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
