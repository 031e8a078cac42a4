"""Guidelines: a call takes no longer than others that do the same, or more.

Träff, Gropp & Thakur: Self-consistent MPI performance guidelines, IEEE TPDS 2010.
"""

from __future__ import annotations

GUIDELINES = (
    ("allreduce", ("reduce", "broadcast")),
    ("allgather", ("gather", "broadcast")),
    ("reduce_scatter", ("reduce", "scatter")),
    ("broadcast", ("scatter", "allgather")),
    ("scatter", ("broadcast",)),
    ("gather", ("allgather",)),
    ("reduce", ("allreduce",)),
)
