"""The ``unisono`` command."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from .. import __version__
from .._build import build_info
from ..errors import UnisonoError

# The module and its name there. Imported when it is called for, so that ranks start without what draws and prices.
_COMMANDS = {
    "explain": ("explain", "explain"),
    "algorithms": ("algorithms", "algorithms"),
    "diagnose": ("diagnose", "diagnose"),
    "bench": ("bench", "bench"),
    "tune": ("tune", "tune"),
    "simulate": ("simulate", "simulate_command"),
    "plan": ("plan", "plan_command"),
    "run": ("run", "run"),
    "lab": ("lab", "lab"),
    "trace": ("trace", "app"),
}


def make_app(names: Iterable[str] = _COMMANDS) -> typer.Typer:
    """The command line, with the commands of these names."""
    app = typer.Typer(
        help="The communication layer of distributed training: collectives as schedules.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in names:
        module, its_name = _COMMANDS[name]
        command = getattr(import_module(f".{module}", __package__), its_name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            # What follows the script is the script's.
            app.command(name, context_settings={"allow_interspersed_args": name != "run"})(command)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        info = build_info()
        core = f"native core by {info['compiler']}" if info else "without its native core"
        print(f"unisono {__version__}, {core}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; what the user got wrong is one line on stderr and exit code 2."""
    wanted = [name for name in sys.argv[1:2] if name in _COMMANDS]
    try:
        code = make_app(wanted or _COMMANDS)(standalone_mode=False)
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
