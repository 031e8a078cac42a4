"""A recurrent network of several layers, each on a device of its own: the wave-front that the engine finds by itself.

python examples/engine_wavefront.py [TRACE.json]

State h[l, t] is computed from h[l, t-1], in the same layer, and from h[l-1, t], in the layer below. The program has two
plain loops. A layer's weights are on one device, which computes one thing at a time: a lane. Layer 1 can begin with
step 0 when layer 0 has done that, while layer 0 goes on with step 1: after a while all devices are busy.
"""

from __future__ import annotations

import sys
from time import perf_counter, sleep

import numpy as np

import unisono

LAYERS, STEPS, WIDTH = 4, 12, 64
SECONDS = 0.01
"""That a device takes for one step; it is a sleep, a stand-in for an accelerator."""


class Network:
    """Weights of every layer, and the states of all layers and steps."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.weights = random.normal(0, 0.2, (LAYERS, 2, WIDTH, WIDTH))
        self.inputs = random.normal(0, 1, (STEPS, WIDTH))
        self.states = np.zeros((LAYERS, STEPS, WIDTH))

    def compute(self, layer: int, step: int) -> None:
        below = self.inputs[step] if layer == 0 else self.states[layer - 1, step]
        before = self.states[layer, step - 1] if step else np.zeros(WIDTH)
        recurrent, forward = self.weights[layer]
        sleep(SECONDS)
        self.states[layer, step] = np.tanh(recurrent @ before + forward @ below)


def run(engine: unisono.Engine | unisono.SerialEngine, network: Network) -> float:
    """Seconds for all steps of all layers."""
    h = [[engine.variable(f"h[{layer}, {step}]") for step in range(STEPS)] for layer in range(LAYERS)]
    devices = [engine.lane(f"device {layer}", width=1) for layer in range(LAYERS)]
    begun = perf_counter()
    for step in range(STEPS):
        for layer in range(LAYERS):
            needs = ([h[layer - 1][step]] if layer else []) + ([h[layer][step - 1]] if step else [])
            engine.push(
                lambda layer=layer, step=step: network.compute(layer, step),
                read=needs,
                mutate=[h[layer][step]],
                lane=devices[layer],
                name=f"layer {layer}, step {step}",
            )
    engine.wait(*h[-1])
    return perf_counter() - begun


def main(trace: str | None = None) -> None:
    serial, parallel = Network(), Network()
    one_after_the_other = run(unisono.SerialEngine(), serial)
    with unisono.Engine(threads=LAYERS, log=True) as engine:
        seconds = run(engine, parallel)
        report = engine.report()
        if trace:
            engine.trace(trace)
    print(report)
    assert report.parallelism > 1, "layers that compute at once"
    assert (serial.states == parallel.states).all(), "to the last bit"
    print(f"one after the other {one_after_the_other:.3f} s, as a wave-front {seconds:.3f} s:", end=" ")
    print(f"{one_after_the_other / seconds:.2f} × faster; the best is", end=" ")
    print(f"{LAYERS * STEPS / (LAYERS + STEPS - 1):.2f} ×, because the devices start one after the other")


if __name__ == "__main__":
    main(*sys.argv[1:])
