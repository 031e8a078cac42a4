"""``unisono run``: a script as the ranks of a job."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from ..launcher.command import resolve_command
from ..launcher.ending import GRACE
from ..launcher.job import describe_job
from ..launcher.processes import run_job


def run(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="SCRIPT [ARGUMENTS]…", help="A .py file or a command.")
    ] = None,
    ranks: Annotated[
        int, typer.Option("-n", "--nproc-per-node", "--nproc_per_node", help="How many ranks to start here.")
    ] = 1,
    module: Annotated[bool, typer.Option("-m", "--module", help="SCRIPT is a module, as in python -m.")] = False,
    nodes: Annotated[int, typer.Option("--nnodes", help="How many hosts run this command.")] = 1,
    node_rank: Annotated[
        int | None, typer.Option("--node-rank", "--node_rank", help="Which of them this is, from 0.")
    ] = None,
    rendezvous: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the ranks meet: an address of the first host.")
    ] = None,
    log_dir: Annotated[
        Path | None,
        typer.Option("--log-dir", "--log_dir", help="Write DIR/rank-N.out, .err; show rank 0.", metavar="DIR"),
    ] = None,
    tee: Annotated[bool, typer.Option("--tee", help="With --log-dir: show all ranks as well.")] = False,
    grace: Annotated[float, typer.Option(help="Seconds that ranks have to end after another failed.")] = GRACE,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say what is started.")] = False,
) -> int:
    """Run a script as several ranks on this host; the first that fails sets the exit code."""
    if not 0 <= grace < math.inf:
        raise ConfigError(f"--grace {grace:g}: write seconds, from 0 up")
    if tee and not log_dir:
        raise ConfigError("--tee needs --log-dir; without it, all ranks are shown anyway")
    job = describe_job(ranks, nodes=nodes, node_rank=node_rank, rendezvous=rendezvous)
    command = resolve_command(words or [], module=module)
    return run_job(command, job, grace=grace, log_dir=log_dir, tee=tee, verbose=verbose)
