"""``unisono lab``: several hosts on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from ..lab import Lab, state
from ..lab.job import addresses_of_servers, prepare_job
from ..lab.lab import take_down
from ..lab.plan import split_rates
from ..lab.rates import format_rate
from ..lab.requirements import need_capabilities
from ..lab.state import Layout
from ..lab.wires import CONGESTION_CONTROL
from ..launcher.command import resolve_command
from ..launcher.ending import GRACE
from ..launcher.front import leave_the_terminal
from ..launcher.processes import run_job
from ..launcher.servers import Servers, check_servers
from .launching import Grace, KeepGoing, LogDir, Module, Tee, Verbose, Words, check_launching
from .units import format_bytes

Name = Annotated[str, typer.Option(help="The lab, if there are several.")]
lab = typer.Typer(help="Several hosts on this machine, from namespaces and token buckets.", no_args_is_help=True)


@lab.command()
def up(
    hosts: Annotated[int, typer.Option(help="How many hosts: host0, host1, …")] = 2,
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="RATE", help="Of every link, such as 1gbit; of one, host3=100mbit. Repeatable."),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="A directory in /tmp that the hosts see, too. Repeatable."),
    ] = None,
    name: Name = "lab",
) -> None:
    """Make the hosts and the links between them."""
    of_all, of_one = split_rates(rate or [])
    made = Lab(hosts, of_all, rates=of_one, share=share or [], name=name).up()
    made.stay()
    _show(state.find(name))


@lab.command(context_settings={"allow_interspersed_args": False})
def run(
    words: Words = None,
    ranks: Annotated[int, typer.Option("-n", help="How many ranks to start, in blocks on the hosts.")] = 1,
    module: Module = False,
    servers: Annotated[int, typer.Option("--servers", help="Parameter servers, on the last hosts.")] = 0,
    log_dir: LogDir = None,
    tee: Tee = False,
    grace: Grace = GRACE,
    keep_going: KeepGoing = False,
    verbose: Verbose = False,
    name: Name = "lab",
) -> int:
    """Run a script as several ranks on the hosts; the first that fails sets the exit code."""
    need_capabilities()
    check_launching(grace, log_dir, tee=tee)
    leave_the_terminal()
    layout = state.find(name)
    command = resolve_command(words or [], module=module)
    check_servers(servers, 1)
    with prepare_job(layout, ranks, command, servers) as (job, places):
        return run_job(
            command,
            job,
            grace=grace,
            log_dir=log_dir,
            tee=tee,
            verbose=verbose,
            keep_going=keep_going,
            place=places,
            servers=Servers(servers, 1, addresses_of_servers(layout, servers)),
        )


@lab.command()
def down(name: Name = "lab") -> None:
    """End what runs on the hosts, and remove them."""
    print(f"lab {name} is down" if take_down(name) else f"lab {name} was not up")


@lab.command()
def status(name: Name = "lab") -> None:
    """The hosts, their rates and what they have sent and received."""
    need_capabilities()
    _show(state.find(name))


def _show(layout: Layout) -> None:
    print(f"lab {layout.name}: {len(layout.hosts)} hosts, TCP congestion control {CONGESTION_CONTROL}")
    for host in layout.hosts:
        sent, received = host.counters
        print(
            f"  {host.name:<7} {host.address:<12} {format_rate(host.rate):<10} "
            f"sent {format_bytes(sent)}, received {format_bytes(received)}"
        )
