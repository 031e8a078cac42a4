"""Measure the default prices anew, and write them into src/unisono/tune/defaults.py. Run it on a quiet machine.

python benchmarks/default_prices.py

Those of wires stay as they are: this needs no lab.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import unisono.tune.defaults
from unisono.tune.defaults import COSTS, GAMMA
from unisono.tune.store import load

FILE = Path(unisono.tune.defaults.__file__)
UNISONO = str(Path(sys.executable).parent / "unisono")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "model.json")
        subprocess.run([UNISONO, "tune", "--out", str(path)], check=True)
        model = load(path)
    lines = ["COSTS: dict[str, dict[str, float]] = {"]
    for kind, known in COSTS.items():
        prices = (
            known if kind.startswith("wire") else {name: price for name, price in model.costs[kind].items() if price}
        )
        lines += [f'    "{kind}": {{', *(f'        "{name}": {price:.2g},' for name, price in prices.items()), "    },"]
    lines += ["}", "", "GAMMA = {", *(f'    "{name}": {model.gamma[name]:.2g},' for name in GAMMA), "}", ""]
    head = FILE.read_text(encoding="utf-8").partition("COSTS:")[0]
    FILE.write_text(head + "\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
