"""An algorithm of one's own: a few lines, verified when registered, then priced and drawn like a built-in one."""

import unisono
from unisono.schedule import Get, Put, Span, all_alike, dual, rounds, then


@unisono.register("allgather", alike=all_alike)
def backward_ring(p, r):
    """In each of p-1 rounds every rank passes the block that it received last to the rank before it."""
    t = rounds(p - 1)
    yield Put((r - 1) % p, Span((r + t) % p)), Get((r + 1) % p, Span((r + t + 1) % p))


# Backwards in time, with sums, it is a reduce-scatter; the two in sequence are an allreduce.
backward_reduce_scatter = dual(backward_ring, name="backward_reduce_scatter", summary="", reducing=True)
unisono.register("allreduce", name="backward_ring")(
    then(backward_reduce_scatter, backward_ring, name="backward_ring", summary="Twice round, the other way.")
)

if __name__ == "__main__":
    for candidate in unisono.explain("allreduce", 8, 1 << 20)[:8]:
        print(f"{candidate.schedule.name:20} {candidate.rounds:3} rounds {candidate.time * 1e3:7.3f} ms")
    print(unisono.draw_text(unisono.find("allreduce", "backward_ring").schedule(4).table))
