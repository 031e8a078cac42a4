"""Random programs for engines: what they leave behind, and a history to check.

A program is a list of steps, made from a seed before anything runs, so that every engine gets the same one.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from unisono.engine import native

MODULUS = 1 << 64
"""As native sums wrap: additions of both kinds commute."""

WIDTH, BYTES = 2, 100
BULK = 12


class Boom(Exception):
    """What operations throw."""


@dataclass(frozen=True)
class Step:
    """One push; or what else a program does."""

    number: int
    kind: str  # run, later (completed elsewhere), throw, nest, native, delete, restore, wait
    read: tuple[int, ...] = ()
    mutate: tuple[int, ...] = ()
    accumulate: tuple[int, ...] = ()
    priority: int = 0
    lane: str | None = None
    bytes: int = 0

    @property
    def modes(self) -> dict[int, str]:
        """Of each variable: whoever uses it in two ways mutates it."""
        modes: dict[int, str] = {}
        for mode, variables in (("read", self.read), ("mutate", self.mutate), ("accumulate", self.accumulate)):
            for variable in variables:
                modes[variable] = mode if modes.get(variable, mode) == mode else "mutate"
        return modes


@dataclass
class Program:
    seed: int
    variables: int
    threads: int
    steps: list[Step]


def random_program(seed: int, length: int = 250) -> Program:
    random = Random(seed)
    variables = random.choice((1, 3, 10, 40, 300))
    throws, later, deleted = random.choice((0.0, 0.02)), random.choice((0.0, 0.1)), set[int]()
    steps = []
    for number in range(1, length + 1):
        alive = [v for v in range(variables) if v not in deleted]
        chosen = random.choices(alive, k=random.randint(0, 6))  # the same one twice, too
        cuts = sorted(random.choices(range(len(chosen) + 1), k=2))
        uses = (tuple(chosen[: cuts[0]]), tuple(chosen[cuts[0] : cuts[1]]), tuple(chosen[cuts[1] :]))
        chance = random.random()
        kind = (
            "throw" if chance < throws
            else "later" if chance < throws + later
            else random.choices(("run", "native", "nest", "wait", "restore", "delete"), (80, 8, 4, 2, 3, 1))[0]
        )  # fmt: skip
        if kind == "delete" and len(alive) > 1:
            deleted.add(alive[0])
            steps.append(Step(number, kind, (alive[0],)))
        elif kind in ("wait", "restore"):
            steps.append(Step(number, kind, tuple(set(chosen))))
        else:
            lane = random.choices((None, "width", "bytes"), (8, 1, 1))[0]
            priority = random.choice((0, 0, 0, 1, -1, 7))
            kind = "run" if kind == "delete" else kind
            steps.append(Step(number, kind, *uses, priority, lane, random.randint(0, BYTES)))
    return Program(seed, variables, random.randint(1, 4), steps)


class Elsewhere:
    """A thread that is not the engine's, which completes operations."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        self.do = self._jobs.put

    def _work(self) -> None:
        while job := self._jobs.get():
            job()

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()


@dataclass
class Run:
    """A program on an engine."""

    program: Program
    engine: Any
    elsewhere: Elsewhere
    cells: Any = None
    inner: dict[int, int] = field(default_factory=dict)
    outcomes: dict[int, Any] = field(default_factory=dict)
    history: dict[int, tuple[int, int]] = field(default_factory=dict)  # begin and end of what ran
    broken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = np.zeros((self.program.variables, 1), np.uint64)
        self._variables = [self.engine.variable(f"x{i}") for i in range(self.program.variables)]
        self._lanes = {
            "width": self.engine.lane("width", width=WIDTH),
            "bytes": self.engine.lane("bytes", bytes=BYTES),
        }
        self._in_lane = {"width": 0, "bytes": 0}
        self._lock = threading.Lock()
        self._clock = itertools.count()
        self._operations: dict[int, Any] = {}

    def go(self) -> Run:
        bulk: list[Step] = []
        for step in self.program.steps:
            if step.kind == "run" and step.lane is None and step.priority == 0 and step.number % 100 < BULK:
                bulk.append(step)
                continue
            self._push_all(bulk)
            self._do(step)
        self._push_all(bulk)
        if self.program.seed % 2:
            with self._caught() as error:  # the first one, in the order of pushes
                self.engine.wait(deadline=60)
            self.outcomes[0] = str(error)
        for number, operation in self._operations.items():
            try:
                self.outcomes[number] = operation.wait(60)
            except Exception as error:
                self.outcomes[number] = str(error)
        for variable in self._variables:
            with self._caught() as error:
                if not variable.deleted:
                    self.engine.wait(variable, deadline=60)
            self.outcomes[-1 - self._variables.index(variable)] = str(error)
        self.engine.wait(deadline=60)  # all were told
        return self

    @contextmanager
    def _caught(self) -> Iterator[list[str]]:
        caught: list[str] = []
        try:
            yield caught
        except Boom as error:
            caught.append(str(error))

    def _do(self, step: Step) -> None:
        chosen = [self._variables[v] for v in step.read]
        if step.kind == "delete":
            chosen[0].delete()
        elif step.kind == "restore":
            self.engine.restore(*chosen)
        elif step.kind == "wait":
            with self._caught():
                self.engine.wait(*chosen, deadline=60) if chosen else None
        else:
            self._push(step)

    def _uses(self, step: Step) -> tuple[list[Any], ...]:
        return tuple([self._variables[v] for v in uses] for uses in (step.read, step.mutate, step.accumulate))

    def _push(self, step: Step) -> None:
        options: dict[str, Any] = {"priority": step.priority}
        if step.lane:
            options["lane"] = self._lanes[step.lane]
        if step.lane == "bytes":
            options["bytes"] = step.bytes
        push = self.engine.push_async if step.kind == "later" else self.engine.push
        self._operations[step.number] = push(self._body(step), *self._uses(step), **options)

    def _push_all(self, steps: list[Step]) -> None:
        tasks = [(self._body(step), *self._uses(step)) for step in steps]
        for step, operation in zip(steps, self.engine.push_all(tasks), strict=True):
            self._operations[step.number] = operation
        steps.clear()

    def _body(self, step: Step) -> Any:
        if step.kind == "native":
            return self._native(step)
        if step.kind == "later":
            return lambda done: (self._begin(step), self.elsewhere.do(lambda: done(self._end(step))))[-1]
        return lambda: (self._begin(step), self._end(step))[-1]

    def _native(self, step: Step) -> Any:
        """Adds what is read to what is written, without the interpreter and so without a history."""
        modes = step.modes
        written = [v for v, mode in modes.items() if mode != "read"]
        read = [v for v, mode in modes.items() if mode == "read"]
        if len(written) != 1 or not read:
            return native.nothing
        return native.reduce(*(self.cells[v] for v in (*read, written[0])), out=self.cells[written[0]])

    def _begin(self, step: Step) -> None:
        with self._lock:
            self.history[step.number] = (next(self._clock), -1)
            if step.lane:
                self._in_lane[step.lane] += 1 if step.lane == "width" else step.bytes
                if self._in_lane[step.lane] > (WIDTH if step.lane == "width" else BYTES):
                    self.broken.append(f"step {step.number}: too much in lane {step.lane}")

    def _end(self, step: Step) -> int:
        try:
            return self._compute(step)
        finally:
            with self._lock:
                if step.lane:
                    self._in_lane[step.lane] -= 1 if step.lane == "width" else step.bytes
                self.history[step.number] = (self.history[step.number][0], next(self._clock))

    def _compute(self, step: Step) -> int:
        if step.kind == "throw":
            raise Boom(f"step {step.number}")
        if step.kind == "nest":
            inner = self.engine.variable()
            for i in range(3):
                self.engine.push(lambda i=i: self._nested(step.number, i), mutate=[inner])
        modes = step.modes
        total = step.number + sum(int(self.cells[v, 0]) for v, mode in modes.items() if mode == "read")
        for v, mode in modes.items():
            factor = 31 if mode == "mutate" else 1
            if mode != "read":
                self.cells[v, 0] = (int(self.cells[v, 0]) * factor + total) % MODULUS
        return total

    def _nested(self, number: int, i: int) -> None:
        self.inner[number] = self.inner.get(number, 1) * 10 + i


def check_history(run: Run) -> list[str]:
    """Whatever conflicts in a variable came one after the other, in the order of pushes."""
    wrong = list(run.broken)
    for variable in range(run.program.variables):
        done = [
            (step, mode)
            for step in run.program.steps
            if step.number in run.history and (mode := step.modes.get(variable))
        ]
        wrong += _check_variable(variable, done, run.history)
    return wrong


def _check_variable(variable: int, done: list[tuple[Step, str]], history: dict[int, tuple[int, int]]) -> list[str]:
    wrong, run_mode = [], ""
    before_run = latest = -1  # ends of what came before the run, and of all
    accumulated: list[tuple[int, int]] = []
    for step, mode in done:
        begin, end = history[step.number]
        if mode != run_mode or mode == "mutate":
            before_run, run_mode, accumulated = latest, mode, []
        if begin < before_run:
            wrong.append(f"step {step.number} ({mode} of x{variable}) began before those pushed before it had ended")
        if mode == "accumulate":
            if any(begin < other_end and other_begin < end for other_begin, other_end in accumulated):
                wrong.append(f"step {step.number} accumulates x{variable} while another one does")
            accumulated.append((begin, end))
        latest = max(latest, end)
    return wrong
