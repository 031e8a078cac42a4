"""``python -m unisono.lab NAME RANKS SCRIPT ARGUMENTS…``: a job in a lab, without the command line's libraries."""

import sys

from ..errors import ConfigError
from ..launcher.command import resolve_command
from ..launcher.processes import run_job
from . import state
from .job import prepare_job


def main(name: str, ranks: str, *words: str) -> int:
    command = resolve_command(list(words))
    with prepare_job(state.find(name), int(ranks), command) as (job, places):
        return run_job(command, job, place=places)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except ConfigError as error:
        print(f"unisono: {error}", file=sys.stderr)
        sys.exit(2)
