"""Schedules: who sends which block to whom, in which round. Pure arithmetic.

What an algorithm is written with, and how algorithms are composed.
"""

from .algorithm import Algorithm, Parameter
from .arithmetic import ceil_log2, floor_log2, in_rank_order, only, others, where
from .catalog import algorithms, find
from .combine import dual, on, pipelined, then, together
from .ir import (
    ALL,
    COPY,
    DATA,
    EVERY_BLOCK,
    INPUT,
    NOBODY,
    REDUCE_AFTER,
    REDUCE_BEFORE,
    TEMP,
    Do,
    Get,
    Put,
    Span,
    each,
    rounds,
)
from .layout import EqualBlocks, UnequalBlocks
from .pattern import Pattern, all_alike, pattern, root_and_others
from .schedule import Schedule, Table

__all__ = [
    "ALL",
    "COPY",
    "DATA",
    "EVERY_BLOCK",
    "INPUT",
    "NOBODY",
    "REDUCE_AFTER",
    "REDUCE_BEFORE",
    "TEMP",
    "Algorithm",
    "Do",
    "EqualBlocks",
    "Get",
    "Parameter",
    "Pattern",
    "Put",
    "Schedule",
    "Span",
    "Table",
    "UnequalBlocks",
    "algorithms",
    "all_alike",
    "ceil_log2",
    "dual",
    "each",
    "find",
    "floor_log2",
    "in_rank_order",
    "on",
    "only",
    "others",
    "pattern",
    "pipelined",
    "root_and_others",
    "rounds",
    "then",
    "together",
    "where",
]
