"""Operations that need no interpreter."""

import ctypes
import gc
import time
import weakref
from typing import Any

import numpy as np
import pytest
from tests.engine.bodies import Gate

from unisono.engine import Engine, copy, nothing, reduce
from unisono.errors import ConfigError


def test_native_operations(engine: Any) -> None:
    x, y, z = np.arange(4.0), np.zeros(4), np.zeros(4)
    X, Y, Z = engine.tag(x), engine.tag(y), engine.tag(z)
    engine.push(copy(x, out=y), read=[X], mutate=[Y])
    engine.push(nothing, read=[Y], mutate=[X])
    engine.push(reduce(x, y, x, out=z), read=[X, Y], mutate=[Z])
    engine.push(reduce(z, y, op="max", out=z), read=[Y], mutate=[Z], name="largest")
    engine.wait(Z)
    assert z.tolist() == [0, 3, 6, 9]
    with pytest.raises(ConfigError, match="elements"):
        copy(x, out=np.zeros(3))
    with pytest.raises(ConfigError, match="two arrays"):
        reduce(x, out=x)
    with pytest.raises(ConfigError, match="no operator"):
        reduce(x, x, out=x, op="xor")


def test_a_native_operation_keeps_its_arrays_until_it_has_run(parallel: Engine) -> None:
    gate, A, out = Gate(), parallel.variable("A"), np.zeros(100_000)
    parallel.push(gate, mutate=[A])
    x = np.ones(100_000)
    kept = weakref.ref(x)
    parallel.push(copy(x, out=out), mutate=[A])
    del x
    gc.collect()
    assert kept() is not None
    gate.open()
    parallel.wait(A)
    assert out.sum() == 100_000
    deadline = time.monotonic() + 20
    while kept() is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert kept() is None, "nobody has to push or wait for it to be let go of"


def test_native_operations_run_while_a_python_operation_holds_the_interpreter() -> None:
    sleep = ctypes.PyDLL(None).usleep  # which does not let go of it
    x, y = np.arange(1024.0), np.zeros(1024)

    with Engine(2, log=True) as engine:

        def hold() -> list[tuple[int, int]]:
            Y, held = engine.tag(y), []
            copies = [engine.push(copy(x, out=y), mutate=[Y], name="copy") for _ in range(3)]
            while not copies[-1].done() and len(held) < 200:
                began = time.monotonic_ns()
                sleep(100_000)
                held.append((began, time.monotonic_ns()))
            return held

        held = engine.push(hold, name="hold").wait(60)
        copies = [each for each in engine.history() if each.name == "copy"]
    assert (x == y).all()
    assert any(began <= each.begun <= each.ended <= ended for each in copies for began, ended in held)
