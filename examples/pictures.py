"""Draw the pictures of the documentation from the schedules themselves."""

import sys
from pathlib import Path

import unisono

MACHINE = unisono.Machine(unisono.Link(alpha=200e-6, beta=8e-10), gamma=1e-10)
NBYTES = 4 << 20


def pictures() -> dict[str, str]:
    """File names and SVG documents."""
    mst, ring = (unisono.find("broadcast", name).schedule(8).table for name in ("mst", "ring"))
    return {
        "ring-allreduce.svg": unisono.draw_svg(unisono.find("allreduce", "ring").schedule(4).table, NBYTES, MACHINE),
        "mst-allreduce.svg": unisono.draw_svg(unisono.find("allreduce", "mst").schedule(8).table, NBYTES, MACHINE),
        "mst-beside-ring-broadcast.svg": unisono.draw_spacetime([mst, ring], NBYTES, MACHINE),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in pictures().items():
        (folder / name).write_text(document, encoding="utf-8")
        print(folder / name)
