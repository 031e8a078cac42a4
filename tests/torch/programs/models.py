"""A small model, and what one process learns with it."""

from __future__ import annotations

from typing import Any


def model() -> Any:
    import torch

    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Linear(12, 24), torch.nn.ReLU(), torch.nn.Linear(24, 24), torch.nn.Linear(24, 4)
    )


def batches(steps: int, ranks: int) -> Any:
    import torch

    return torch.randn(steps, ranks, 8, 12, generator=torch.Generator().manual_seed(3))


def alone(ranks: int, steps: int) -> Any:
    """The parameters that one process gets from all batches."""
    import torch

    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches(steps, ranks):
        optimizer.zero_grad()
        net(batch.reshape(-1, 12)).pow(2).mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in net.parameters()]


def same(parameters: Any, right: Any, tolerance: float = 1e-6) -> None:
    import torch

    for mine, theirs in zip(parameters, right, strict=True):
        assert torch.allclose(mine, theirs, atol=tolerance)
