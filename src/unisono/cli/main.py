"""The ``unisono`` command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .. import __version__
from .._build import build_info
from ..errors import UnisonoError
from . import trace
from .algorithms import algorithms
from .bench import bench
from .diagnose import diagnose
from .explain import explain
from .lab import lab
from .plan import plan_command
from .run import run
from .simulate import simulate_command

app = typer.Typer(
    help="The communication layer of distributed training: collectives as schedules.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(explain)
app.command()(algorithms)
app.command()(diagnose)
app.command()(bench)
app.command("simulate")(simulate_command)
app.command("plan")(plan_command)
# What follows the script is the script's.
app.command(context_settings={"allow_interspersed_args": False})(run)
app.add_typer(lab, name="lab")
app.add_typer(trace.app, name="trace")


def _print_version(wanted: bool) -> None:
    if wanted:
        info = build_info()
        core = f"native core by {info['compiler']}" if info else "without its native core"
        print(f"unisono {__version__}, {core}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; what the user got wrong is one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except UnisonoError as error:
        sys.exit(_complain(str(error)))
    except typer.TyperException as error:
        sys.exit(_complain(" ".join(error.format_message().split())))
    except typer.Abort:
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> int:
    if message:  # none where the help was shown instead
        print(f"unisono: {message}", file=sys.stderr)
    return 2
