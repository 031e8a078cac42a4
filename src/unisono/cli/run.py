"""``unisono run``: a script as the ranks of a job."""

from __future__ import annotations

from typing import Annotated

import typer

from ..launcher.command import resolve_command
from ..launcher.ending import GRACE
from ..launcher.front import leave_the_terminal
from ..launcher.job import describe_job
from ..launcher.processes import run_job
from ..launcher.servers import describe_servers
from .launching import Grace, KeepGoing, LogDir, Module, Tee, Verbose, Words, check_launching


def run(
    words: Words = None,
    ranks: Annotated[
        int, typer.Option("-n", "--nproc-per-node", "--nproc_per_node", help="How many ranks to start here.")
    ] = 1,
    module: Module = False,
    nodes: Annotated[int, typer.Option("--nnodes", help="How many hosts run this command.")] = 1,
    node_rank: Annotated[
        int | None, typer.Option("--node-rank", "--node_rank", help="Which of them this is, from 0.")
    ] = None,
    rendezvous: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the ranks meet: an address of the first host.")
    ] = None,
    servers: Annotated[int, typer.Option("--servers", help="How many parameter servers to start beside them.")] = 0,
    server_threads: Annotated[int, typer.Option("--server-threads", help="Shards of each server.")] = 1,
    log_dir: LogDir = None,
    tee: Tee = False,
    grace: Grace = GRACE,
    keep_going: KeepGoing = False,
    verbose: Verbose = False,
) -> int:
    """Run a script as several ranks on this host; the first that fails sets the exit code."""
    check_launching(grace, log_dir, tee=tee)
    leave_the_terminal()
    job = describe_job(ranks, nodes=nodes, node_rank=node_rank, rendezvous=rendezvous)
    command = resolve_command(words or [], module=module)
    return run_job(
        command,
        job,
        grace=grace,
        log_dir=log_dir,
        tee=tee,
        verbose=verbose,
        keep_going=keep_going,
        servers=describe_servers(servers, server_threads, job),
    )
