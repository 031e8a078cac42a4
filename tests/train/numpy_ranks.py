"""What ranks that are processes do without torch."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from time import monotonic

import numpy as np
from tests.launcher.processes import eventually

import unisono
from unisono.errors import PeerLost
from unisono.train import GradientSync

LAYERS = 6


def killed_in_backward(notes: str) -> None:
    """Rank 1 dies in the middle of the third step; the others write what they are told, and how long that took."""
    with unisono.init() as comm:
        layers = {f"layer{number}": np.zeros(10_000, np.float32) for number in range(LAYERS)}
        with GradientSync(layers, comm, bucket_bytes=40_000) as sync:
            for step in range(1000):
                began = monotonic()
                if step == 2:
                    Path(notes, f"begun-{comm.rank}").touch()
                try:
                    for name in reversed(layers):
                        if (comm.rank, step, name) == (1, 2, "layer2"):
                            # The others are not still in the step before.
                            assert eventually(lambda: len(list(Path(notes).glob("begun-*"))) == comm.size)
                            os.kill(os.getpid(), signal.SIGKILL)
                        sync.ready(name, layers[name])
                    sync.wait()
                except PeerLost as error:
                    text = "\n".join([f"{monotonic() - began:.3f}", str(error), *error.__notes__])
                    Path(notes, str(comm.rank)).write_text(text)
                    return
