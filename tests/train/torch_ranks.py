"""Models, and what ranks that are processes do with them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from tests.launcher.processes import eventually

import unisono
from unisono.errors import PeerLost
from unisono.train import DataParallel

STEPS, ROWS = 3, 8


class Model(torch.nn.Module):
    """An embedding whose weights are the head's, too, a normalised layer, and a parameter that is no matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 16)
        self.layer = torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.head = torch.nn.Linear(16, 11)
        self.temperature = torch.nn.Parameter(torch.ones(()))
        self.head.weight = self.embedding.weight
        own = torch.Generator().manual_seed(5)  # threads share the global one
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.3, generator=own)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        return self.head(self.norm(torch.tanh(self.layer(x)) + x)) * self.temperature


def batch(rank: int, step: int, rows: int = ROWS) -> Any:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randint(0, 11, (rows, 2), generator=generator)


def loss_of(model: Any, rows: Any) -> Any:
    return torch.nn.functional.cross_entropy(model(rows[:, 0]), rows[:, 1])


def alone(ranks: int, steps: int = STEPS) -> list[bytes]:
    """One process: the gradients of all micro-batches, added in the order of ranks; the parameters at the end."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        sums: list[Any] = []
        for rank in range(ranks):
            model.zero_grad()
            loss_of(model, batch(rank, step)).backward()
            own = [parameter.grad for parameter in model.parameters()]
            sums = [total + gradient for total, gradient in zip(sums, own, strict=True)] if sums else own
        for parameter, total in zip(model.parameters(), sums, strict=True):
            parameter.grad = total / ranks
        optimizer.step()
    return [parameter.detach().numpy().tobytes() for parameter in model.parameters()]


def trained(comm: unisono.Communicator | None = None, *, compiled: bool = False, **options: Any) -> list[bytes]:
    """One rank of several."""
    torch.set_num_threads(1)
    model = DataParallel(Model(), comm, bucket_bytes=1024, **options)
    called = torch.compile(model, backend="eager") if compiled else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(called, batch(model.comm.rank, step)).backward()
        optimizer.step()
    model.close()
    return [parameter.detach().numpy().tobytes() for parameter in model.parameters()]


def reproducibly_trained() -> list[bytes]:
    return trained(reproducible=True)


def compiled_and_trained() -> list[bytes]:
    return trained(compiled=True, reproducible=True)


def left_by_one(notes: str, *, is_killed: bool) -> None:
    """In the third step, rank 1 dies inside of backward, or ends before it; the others write what they are told."""
    torch.set_num_threads(1)
    model = DataParallel(Model(), bucket_bytes=1024)
    rank, step = model.comm.rank, 0

    def others_are_there() -> bool:
        return all(Path(notes, f"begun-{other}").exists() for other in (0, 2))

    def die(_: Any) -> None:
        if (rank, step) == (1, 2):
            assert eventually(others_are_there)  # and not still in the step before
            os.kill(os.getpid(), signal.SIGKILL)

    if is_killed:
        model.module.layer.weight.register_hook(die)
    while True:
        began = monotonic()
        if step == 2:
            Path(notes, f"begun-{rank}").touch()
        if not is_killed and (rank, step) == (1, 2):
            assert eventually(others_are_there)
            return
        try:
            model.zero_grad()
            loss_of(model, batch(rank, step)).backward()
        except PeerLost as error:
            text = "\n".join([f"{monotonic() - began:.3f}", str(error), *error.__notes__])
            Path(notes, str(rank)).write_text(text)
            return
        step += 1


def killed_in_a_hook(notes: str) -> None:
    left_by_one(notes, is_killed=True)


def ended_early(notes: str) -> None:
    left_by_one(notes, is_killed=False)
