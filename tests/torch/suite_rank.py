"""Runs tests of the suite that torch ships on one backend, with one number of ranks: a line of JSON for each.

The ranks are forked: torch is imported once, not once a test and rank.

    python tests/torch/suite_rank.py unisono 2 [names of tests]
"""

import importlib.util
import json
import os
import sys
import tempfile
import time
import unittest
from types import ModuleType

SUITE = "torch.testing._internal.distributed.distributed_test"
SECONDS_FOR_A_TEST = "60"


class Named(str):
    """The name of our backend in torch's conditions. "BACKEND != 'gloo'" means "not on CPUs" there: it is not."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:  # so that sets with gloo in them have it
        return hash("gloo")


def load(backend: str) -> ModuleType:
    """The suite, for a backend that it has never heard of."""
    spec = importlib.util.find_spec(SUITE)
    assert spec
    assert spec.origin
    with open(spec.origin) as file:
        source = file.read()
    setting = 'BACKEND = os.environ["BACKEND"]'
    assert setting in source, "another torch, whose suite gets its backend elsewhere"
    module = importlib.util.module_from_spec(spec)
    if backend != "gloo":
        from torch.testing._internal.common_distributed import DistTestCases

        for feature in ("ddp", "subgroup", "plugin"):
            DistTestCases.backend_feature[feature].add(backend)
        module.__dict__["Named"] = Named
        source = source.replace(setting, 'BACKEND = Named(os.environ["BACKEND"])')
    sys.modules[SUITE] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    return module


def case_of(suite: ModuleType) -> type[unittest.TestCase]:
    import torch

    class Forked(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Forked


def outcome_of(test: unittest.TestCase) -> tuple[str, str]:
    result = unittest.TestResult()
    test.run(result)
    if result.skipped:
        return "skipped", result.skipped[0][1]
    trouble = [*result.errors, *result.failures]
    return ("failed", trouble[0][1]) if trouble else ("passed", "")


def main(backend: str, ranks: str, names: list[str]) -> None:
    temporary = tempfile.TemporaryDirectory(prefix="unisono-suite-")
    os.environ.update(
        BACKEND=backend,
        WORLD_SIZE=ranks,
        TEMP_DIR=temporary.name,
        INIT_METHOD="file://" + os.path.join(temporary.name, "shared_init_file"),
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=SECONDS_FOR_A_TEST,
        OMP_NUM_THREADS="1",
    )
    for variable in ("MASTER_ADDR", "MASTER_PORT", "RANK"):
        os.environ.pop(variable, None)
    case = case_of(load(backend))
    every = unittest.defaultTestLoader.getTestCaseNames(case)
    if names == ["?"]:
        print(json.dumps(list(every)))
        return
    for name in names or every:
        begun = time.monotonic()
        outcome, why = outcome_of(case(name))
        line = {"test": name, "outcome": outcome, "why": why, "seconds": round(time.monotonic() - begun, 1)}
        print("\x1e" + json.dumps(line), flush=True)
    temporary.cleanup()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
