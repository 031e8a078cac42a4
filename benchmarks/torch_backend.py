"""allreduce and messages through torch.distributed: unisono against gloo, in the same processes, in turns.

    python benchmarks/torch_backend.py [--ranks 2 4] [--sizes 8 1024 65536 1048576 67108864] [--ways there_and_back]

Prints the time of one call, as the median of paired rounds: of allreduces that are waited for one by one, of eight on
an eighth of the bytes each, which are under way together, of a message to a rank and one back, and of messages that
all ranks exchange with their neighbours. What torch does before it calls a backend is part of it.
"""

import argparse
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

SECONDS_OF_A_ROUND = 0.03
TOGETHER = 8


def one_by_one(x: torch.Tensor, group: dist.ProcessGroup, count: int) -> None:
    for _ in range(count):
        dist.all_reduce(x, group=group)


def together(x: torch.Tensor, group: dist.ProcessGroup, count: int) -> None:
    parts = x.chunk(TOGETHER) if x.numel() >= TOGETHER else [x.clone() for _ in range(TOGETHER)]
    for _ in range(max(1, count // TOGETHER)):
        for work in [dist.all_reduce(part, group=group, async_op=True) for part in parts]:
            work.wait()


def there_and_back(x: torch.Tensor, group: dist.ProcessGroup, count: int) -> None:
    """Ranks 0 and 1 take turns, 2 and 3, and so on."""
    rank = dist.get_rank()
    for _ in range(count):
        if rank % 2:
            dist.recv(x, rank - 1, group=group)
            dist.send(x, rank - 1, group=group)
        else:
            dist.send(x, rank + 1, group=group)
            dist.recv(x, rank + 1, group=group)


def exchange(x: torch.Tensor, group: dist.ProcessGroup, count: int) -> None:
    """As pipelines and halos do: to the right and from the left, at the same time."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    room = torch.empty_like(x)
    operations = [
        dist.P2POp(dist.isend, x, (rank + 1) % ranks, group),
        dist.P2POp(dist.irecv, room, (rank - 1) % ranks, group),
    ]
    for _ in range(count):
        for work in dist.batch_isend_irecv(operations):
            work.wait()


WAYS = {way.__name__: way for way in (one_by_one, together, there_and_back, exchange)}


def seconds(way, x: torch.Tensor, group: dist.ProcessGroup, count: int) -> float:
    dist.barrier(group=group)
    begun = time.perf_counter()
    way(x, group, count)
    return (time.perf_counter() - begun) / count


def measure(rank: int, ranks: int, port: int, sizes: list[int], rounds: int, ways: list[str]) -> None:
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, ranks, is_master=rank == 0)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    groups = {"gloo": dist.group.WORLD, "unisono": dist.new_group(backend="unisono")}
    for size in sizes:
        x = torch.zeros(max(1, size // 4))
        for way in map(WAYS.__getitem__, ways):
            trial = torch.tensor([seconds(way, x, groups["gloo"], TOGETHER)])
            dist.broadcast(trial, 0)
            count = max(TOGETHER, min(500, int(SECONDS_OF_A_ROUND / trial.item())))
            times: dict[str, list[float]] = {name: [] for name in groups}
            for _ in range(rounds):
                for name, group in groups.items():
                    times[name].append(seconds(way, x, group, count))
            gloo, ours = (statistics.median(times[name]) for name in ("gloo", "unisono"))
            ratio = statistics.median(b / a for a, b in zip(times["gloo"], times["unisono"], strict=True))
            if rank == 0:
                print(
                    f"{ranks:5} {size:9} {way.__name__:>14} {gloo * 1e6:11.1f} {ours * 1e6:11.1f} {ratio:7.2f}",
                    flush=True,
                )
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 1 << 10, 1 << 16, 1 << 20, 1 << 26])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS])
    options = parser.parse_args()
    print(f"{'ranks':>5} {'bytes':>9} {'':>14} {'gloo µs':>11} {'unisono µs':>11} {'ratio':>7}")
    for ranks in options.ranks:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        multiprocessing.start_processes(
            measure,
            (ranks, port, options.sizes, options.rounds, options.ways),
            nprocs=ranks,
            start_method="fork",
        )


if __name__ == "__main__":
    main()
