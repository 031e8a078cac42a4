"""A first look: the catalogue, what each algorithm would cost, and one of them drawn.

The drawing as a picture goes to the file named on the command line, or to ring-allreduce.svg.
"""

import sys

import unisono
from unisono.cli.main import make_app


def show(*command: str) -> None:
    print("\n$ unisono", " ".join(command), "\n", flush=True)
    make_app(command[:1])(list(command), standalone_mode=False)
    sys.stdout.flush()


if __name__ == "__main__":
    picture = sys.argv[1] if len(sys.argv) > 1 else "ring-allreduce.svg"
    show("algorithms")
    show("explain", "allreduce", "--ranks", "8", "--bytes", "64MiB")
    show("explain", "allreduce", "--ranks", "4", "--algorithm", "ring", "--svg", picture)

    verdict = unisono.verify(unisono.find("allreduce", "ring").schedule(4).table)
    answer = "right" if verdict.right else verdict.problems[0]
    print(f"\nverify: {answer}. The same schedule as a picture: {picture}\n")
