"""Makes the processes of a lab and joins them. Until they are told to stay, they end with us."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress

from ..errors import ConfigError, DeadlineExceeded
from . import state
from .holder import __file__ as holder_file
from .host import SECONDS_TO_END, Holder, Host, start_of
from .namespaces import child_as_first
from .plan import Plan
from .requirements import PRIVILEGES
from .state import Layout
from .wires import address_of, wire

SECONDS_TO_START = 30
SWITCH = "switch"


class Build:
    """A lab under construction; when it stands, our end of what ties it to this process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._keepers: list[_Keeper] = []

    def make(self) -> Layout:
        """All of it, or nothing."""
        try:
            return self._make()
        except BaseException as error:
            self.end()
            if isinstance(error, OSError):
                raise ConfigError(f"cannot make the lab: {error.strerror}; it needs Linux 5.8, {PRIVILEGES}") from error
            raise

    def _make(self) -> Layout:
        switch, *holders = self._start()
        hosts = [
            Host(holder.name, holder.pid, holder.started, address_of(number), rate)
            for number, (holder, rate) in enumerate(zip(holders, self._plan.rates, strict=True))
        ]
        wire(switch, hosts)
        layout = Layout(self._plan.name, switch, hosts)
        state.save(layout)
        return layout

    def _start(self) -> list[Holder]:
        deadline = time.monotonic() + SECONDS_TO_START
        for name in (SWITCH, *self._plan.host_names):
            self._keepers.append(_Keeper(self._plan, name))
        return [keeper.wait_until_ready(deadline) for keeper in self._keepers]

    def let_stay(self) -> None:
        """From here on, the lab outlives this process."""
        for keeper in self._keepers:
            keeper.let_stay()
        self._keepers = []

    def end(self) -> None:
        for keeper in self._keepers:
            keeper.kill()
        for keeper in self._keepers:
            keeper.bury()
        self._keepers = []


class _Keeper:
    """A holder as its parent has it: a child, with a pipe to it and one back."""

    def __init__(self, plan: Plan, name: str) -> None:
        self._name = name
        with child_as_first():
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", holder_file, f"{plan.name}/{name}"],  # the name is for who reads ps
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        addresses = [f"{address_of(number)} {host}" for number, host in enumerate(plan.host_names)]
        self._tell(json.dumps({"name": name, "shared": plan.shared, "addresses": "\n".join(addresses)}))

    def wait_until_ready(self, deadline: float) -> Holder:
        answer = self._answer(deadline)
        started = start_of(self._process.pid)
        if answer != "ready" or started is None:
            raise ConfigError(f"{self._name} of the lab {answer or 'has ended'}; it needs {PRIVILEGES}")
        return Holder(self._name, self._process.pid, started)

    def let_stay(self) -> None:
        self._tell("stay")
        self._close()
        self._process.returncode = 0  # no longer ours to wait for; a Popen without one complains when it is deleted

    def kill(self) -> None:
        self._process.kill()

    def bury(self) -> None:
        self._process.wait(SECONDS_TO_END)
        self._close()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and why is told to who waits for its answer
            os.write(self._process.stdin.fileno(), f"{line}\n".encode())

    def _answer(self, deadline: float) -> str:
        assert self._process.stdout is not None
        pipe, text = self._process.stdout.fileno(), b""
        while not text.endswith(b"\n"):
            if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise DeadlineExceeded(f"{self._name} of the lab was not ready in {SECONDS_TO_START} s")
            if not (more := os.read(pipe, 4096)):
                break
            text += more
        return text.decode().strip()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
