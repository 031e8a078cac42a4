"""The options of commands that start ranks."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError

Words = Annotated[list[str] | None, typer.Argument(metavar="SCRIPT [ARGUMENTS]…", help="A .py file or a command.")]
Module = Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module, as in python -m.")]
LogDir = Annotated[
    Path | None, typer.Option("--log-dir", "--log_dir", help="Write DIR/rank-N.out, .err; show rank 0.", metavar="DIR")
]
Tee = Annotated[bool, typer.Option("--tee", help="With --log-dir: show all ranks as well.")]
Grace = Annotated[float, typer.Option(help="Seconds that ranks have to end after another failed.")]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Let the others go on without a rank that fails; see comm.shrink().")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Say what is started.")]


def check_launching(grace: float, log_dir: Path | None, *, tee: bool) -> None:
    """What these options cannot mean together is refused."""
    if not 0 <= grace < math.inf:
        raise ConfigError(f"--grace {grace:g}: write seconds, from 0 up")
    if tee and not log_dir:
        raise ConfigError("--tee needs --log-dir; without it, all ranks are shown anyway")
