"""Prices when nobody has measured: those of the machine that docs/tune.md describes.

`python benchmarks/default_prices.py` measures them anew. Those of wires are of 1 Gbit/s between hosts that share
nothing; the crowded ones are those of labs with 3, 4 and 5 hosts.
"""

from __future__ import annotations

COSTS: dict[str, dict[str, float]] = {
    "memory": {
        "call": 7.2e-07,
        "wait_in_turn": 6e-08,
        "wait": 3e-08,
        "staged_2^12": 2.8e-11,
        "staged_2^16": 1.3e-11,
        "staged_2^20": 1.5e-11,
        "staged_2^24": 1.4e-11,
        "staged_foreign_2^24": 1.9e-11,
        "lent_foreign_2^24": 1e-10,
        "lent_foreign_2^28": 1.1e-10,
    },
    "memory_crowded": {
        "call": 1.3e-06,
        "wait_in_turn": 9.3e-07,
        "wait": 5.6e-07,
        "staged_2^12": 6.7e-11,
        "staged_2^16": 2.4e-11,
        "staged_2^20": 2e-11,
        "staged_2^24": 2.8e-11,
        "lent_2^28": 2.6e-11,
        "lent_foreign_2^24": 1.4e-10,
        "lent_foreign_2^28": 4e-11,
    },
    "tcp": {
        "call": 6.8e-07,
        "round": 3.4e-06,
        "message": 1.3e-06,
        "byte_2^16": 1.6e-10,
        "byte_2^20": 1.2e-10,
        "byte_2^24": 1.5e-10,
        "byte_2^28": 1.5e-10,
        "byte_shared_2^16": 2.8e-11,
        "byte_shared_2^20": 1.1e-12,
        "reduced": 2.7e-11,
    },
    "tcp_crowded": {
        "call": 1.5e-05,
        "message_shared": 3.8e-06,
        "byte_2^20": 3.9e-11,
        "byte_shared_2^16": 1.6e-10,
        "byte_shared_2^20": 1.8e-10,
        "byte_shared_2^24": 1.7e-10,
        "byte_shared_2^28": 1.7e-10,
        "reduced": 8.7e-11,
    },
    "wire": {
        "call": 2e-05,
        "round": 3e-05,
        "message": 3e-06,
        "wire_in_step": 8e-10,
        "wire_at_once": 7.5e-09,
        "byte_shared": 1e-10,
        "reduced": 1e-10,
    },
    "wire_crowded": {
        "call": 7.5e-06,
        "message_shared_2^10": 8.1e-06,
        "wire_in_step": 3e-10,
        "wire_at_once": 7.5e-09,
        "byte_shared": 2.3e-10,
    },
}

GAMMA = {
    "float32 sum": 4.5e-11,
    "float16 sum": 5.8e-11,
    "float16 max": 7.3e-11,
    "bfloat16 sum": 7.4e-11,
    "bfloat16 max": 9.3e-11,
}
