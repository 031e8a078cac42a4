"""The suite that torch ships (`torch.testing._internal.distributed.distributed_test`), on gloo and on unisono.

    make test-torch                              all of it, with 2, 3 and 4 ranks
    python tests/torch/suite.py --ranks 2 test_all_reduce_sum test_gather

Every test that gloo passes has to pass on unisono, but for those in NOT_OURS. Ends with 1 if one does not.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

RANK = Path(__file__).with_name("suite_rank.py")
REPETITIONS = 2
"""Of a test that failed: on a machine that is busy with other things, some of torch's own time-outs are short."""

NOT_OURS: dict[str, str] = {}
"""Tests that gloo passes and we do not, each with its reason. There may be five of them."""


def run(backend: str, ranks: int, names: list[str]) -> dict[str, tuple[str, str]]:
    """What came of each test, and why."""
    outcomes = dict(_run(backend, ranks, names))
    for _ in range(REPETITIONS):
        if failed := [name for name, (outcome, _) in outcomes.items() if outcome == "failed"]:
            again = dict(_run(backend, ranks, failed))
            for name, (outcome, _) in again.items():
                print(f"{backend}, {ranks} ranks: {name} failed, was repeated, and {outcome}: {outcomes[name][1]}")
            outcomes.update(again)
    return outcomes


def _run(backend: str, ranks: int, names: list[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    command = [sys.executable, str(RANK), backend, str(ranks), *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if "\x1e" in line:
                found = json.loads(line.split("\x1e")[-1])
                yield (
                    found["test"],
                    (found["outcome"], found["why"].strip().splitlines()[-1:][0] if found["why"] else ""),
                )
    if process.returncode:
        raise SystemExit(f"the tests of {backend} with {ranks} ranks ended with {process.returncode}")


def compare(ranks: int, names: list[str]) -> bool:
    """Print the table for so many ranks; whether all is well."""
    gloo, ours = run("gloo", ranks, names), run("unisono", ranks, names)
    bad = []
    print(f"\n{ranks} ranks\n{'test':75} {'gloo':8} {'unisono':8}")
    for name, (theirs, why) in gloo.items():
        outcome, our_reason = ours[name]
        is_worse = theirs == "passed" and outcome != "passed"
        if is_worse and name not in NOT_OURS:
            bad.append(name)
        reason = NOT_OURS.get(name, our_reason) if is_worse else our_reason or why
        print(f"{name:75} {theirs:8} {outcome:8} {reason[:120]}")
    for backend, outcomes in (("gloo", gloo), ("unisono", ours)):
        counts = Counter(outcome for outcome, _ in outcomes.values())
        print(f"{backend:8}", ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    for name in bad:
        print(f"gloo passes {name}, unisono does not")
    return not bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("names", nargs="*", help="tests; all if there are none")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if missing := [name for name in ("torch", "expecttest") if not find_spec(name)]:
        raise SystemExit(f"torch's suite needs {' and '.join(missing)}: pip install torch==2.13.0 expecttest")
    well = [compare(ranks, options.names) for ranks in options.ranks]
    raise SystemExit(0 if all(well) else 1)


if __name__ == "__main__":
    main()
