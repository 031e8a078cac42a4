"""Run rounds of messages in SimGrid: a job on stdin, seconds on stdout. Needs only SimGrid's Python module.

A job has ``links`` (seconds per byte), ``alpha``, ``ranks``, and ``rounds``: lists of (source, target, bytes, links on
the way). A rank posts all messages of a round and waits for all before it goes on, as in our asynchronous mode.
Links are SimGrid's model CM02 with all factors 1: max-min fair, no windows, no cross-traffic.
"""

import json
import sys

from simgrid import Actor, Engine, LinkInRoute, Mailbox, NetZone

PLAIN = (
    "network/model:CM02",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
)


def main() -> None:
    job = json.load(sys.stdin)
    engine = Engine(["simgrid", "--log=root.thresh:error", *(f"--cfg={setting}" for setting in PLAIN)])
    hosts = build(job)
    mine = [[] for _ in hosts]
    for number, messages in enumerate(job["rounds"]):
        for rounds in mine:
            rounds.append(([], []))
        for source, target, nbytes, _ in messages:
            mailbox = f"{number}:{source}:{target}"
            mine[source][number][0].append((mailbox, round(nbytes)))
            mine[target][number][1].append(mailbox)
    for rank, host in enumerate(hosts):
        Actor.create(f"rank {rank}", host, act, mine[rank])
    engine.run()
    print(json.dumps(Engine.clock if not callable(Engine.clock) else Engine.clock()))


def build(job: dict) -> list:
    zone = NetZone.create_full_zone("zone")
    hosts = [zone.create_host(f"rank-{rank}", 1e9) for rank in range(job["ranks"])]
    rate = 1 / job["beta"]
    out = [zone.create_link(f"out-{r}", rate).set_latency(job["alpha"]).seal() for r in range(len(hosts))]
    into = [zone.create_link(f"in-{r}", rate).seal() for r in range(len(hosts))]
    links = [zone.create_link(f"link-{i}", 1 / beta).seal() for i, beta in enumerate(job["links"])]
    known = set()
    for messages in job["rounds"]:
        for source, target, _, way in messages:
            if (source, target) not in known:
                known.add((source, target))
                path = [out[source], *(links[i] for i in way), into[target]]
                add_route(zone, hosts[source], hosts[target], path)
    zone.seal()
    return hosts


def add_route(zone, source, target, path) -> None:
    try:
        zone.add_route(source, target, [LinkInRoute(link) for link in path], False)
    except TypeError:
        zone.add_route(source.netpoint, target.netpoint, None, None, [LinkInRoute(link) for link in path], False)


def act(rounds: list) -> None:
    for sends, receives in rounds:
        under_way = [Mailbox.by_name(mailbox).put_async(mailbox, nbytes) for mailbox, nbytes in sends]
        arriving = [Mailbox.by_name(mailbox).get_async() for mailbox in receives]
        for comm in (*under_way, *(pair[0] if isinstance(pair, tuple) else pair for pair in arriving)):
            comm.wait()


if __name__ == "__main__":
    main()
