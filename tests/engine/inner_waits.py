"""Random programs whose operations wait inside, for anything: every wait ends, or is told that it never could.

python tests/engine/inner_waits.py KIND FIRST COUNT

A process of its own, so that a program that hangs can be ended: it says which one, and what its threads do.
"""

import faulthandler
import os
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

from unisono.engine import Engine, SerialEngine
from unisono.errors import ConfigError, DeadlineExceeded

KINDS: dict[str, Any] = {"Engine": Engine, "SerialEngine": SerialEngine}
PUSHES, DEEPEST, BYTES = 60, 3, 100
LIMIT = 60.0


class Program:
    """Operations with variables and lanes of all kinds, that wait for variables, for others, and for what they push."""

    def __init__(self, kind: str, seed: int) -> None:
        self.seed, self.random = seed, Random(seed)
        self.engine = KINDS[kind](self.random.randint(1, 3))
        self.lanes = [self.engine.lane("wide", width=self.random.randint(1, 3)), self.engine.lane("full", bytes=BYTES)]
        self.variables = [self.engine.variable(f"x{i}") for i in range(self.random.choice((1, 3, 10)))]
        self.operations: list[Any] = []
        self.wrong: list[str] = []
        self.ended = self.refused = 0

    def run(self) -> None:
        for _ in range(PUSHES):
            self.push(self.random, 0)
            if self.random.random() < 0.05:
                self.random.choice(self.operations).cancel()
            if self.random.random() < 0.03:
                self.engine.restore(*self.variables)
        while not self.is_through():
            pass
        if not all(operation.done() for operation in self.operations):
            self.wrong.append("an operation is not through")
        self.engine.close()

    def is_through(self) -> bool:
        """False if there is another failure to be told."""
        try:
            self.engine.wait(deadline=LIMIT)
        except DeadlineExceeded as error:
            print(f"seed {self.seed} hangs: {error}\n{self.engine.graph()}", flush=True)
            faulthandler.dump_traceback()
            os._exit(1)
        except Exception:
            return False
        return True

    def push(self, random: Random, depth: int) -> Any:
        lanes = random.sample(self.lanes, random.choice((0, 0, 0, 1, 2)))
        options: dict[str, Any] = {"lane": lanes} if lanes else {}
        if self.lanes[1] in lanes:
            options["bytes"] = random.randint(0, BYTES)
        used = random.sample(self.variables, min(len(self.variables), random.randint(0, 3)))
        first, second = sorted((random.randint(0, len(used)), random.randint(0, len(used))))
        uses = used[:first], used[first:second], used[second:]
        priority = random.choice((0, 0, 0, 1, -1))
        operation = self.engine.push(self.body(random.randrange(1 << 30), depth), *uses, priority=priority, **options)
        self.operations.append(operation)
        return operation

    def body(self, seed: int, depth: int) -> Callable[[], None]:
        def body() -> None:
            random = Random(seed)
            time.sleep(random.choice((0, 0, 0, 0.0005)))
            choice = random.random()
            if choice < 0.04:
                raise ValueError("bad")
            try:
                if choice < 0.16:
                    self.engine.wait(random.choice(self.variables))
                elif choice < 0.26:
                    random.choice(self.operations).wait()
                elif choice < 0.38 and depth < DEEPEST:
                    self.push(random, depth + 1).wait()
                elif choice < 0.42:
                    self.engine.wait()
                elif choice < 0.5:
                    self.wait_for_what_is_never_stuck()
                self.ended += 1
            except ConfigError as error:
                self.refused += 1
                if "it would wait for itself" not in str(error):
                    self.wrong.append(str(error))

        return body

    def wait_for_what_is_never_stuck(self) -> None:
        """Which does not depend on who waits."""
        own = self.engine.variable()
        self.engine.push(lambda: None, mutate=[own])
        try:
            assert self.engine.push(lambda: "ran", read=[own]).wait() == "ran"
        except Exception as error:
            self.wrong.append(f"refused without need: {error}")


def main(kind: str, first: int, count: int) -> None:
    ended = refused = 0
    for seed in range(first, first + count):
        faulthandler.dump_traceback_later(2 * LIMIT, exit=True)
        print(f"seed {seed}", flush=True)
        program = Program(kind, seed)
        program.run()
        if program.wrong:
            sys.exit("\n".join(program.wrong))
        ended, refused = ended + program.ended, refused + program.refused
    print(f"{count} programs: {ended} operations went on, {refused} waits were refused")
    if not ended or not refused:
        sys.exit("these try nothing")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
