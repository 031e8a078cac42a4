"""Tables in one process: what they hold is what NumPy would have computed."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.server.rule import Broken, Clipped

from unisono.errors import ConfigError, MismatchError, PeerLost, UnisonoError
from unisono.server import ParameterServers, asynchronous, bsp, connect, essp, ssp
from unisono.server.reads import Reads

F = np.float32


@pytest.fixture
def servers() -> Iterator[ParameterServers]:
    with connect(deadline=20) as connected:
        yield connected


class Oracle:
    """Updates by NumPy, in float32, operation by operation."""

    def __init__(self, update: str, shape: tuple[int, ...]) -> None:
        self.update = update
        self.w, self.m, self.v = (np.zeros(shape, F) for _ in range(3))
        self.step = 0

    def push(self, g: np.ndarray) -> None:
        self.step += 1
        lr, mu, b1, b2, e = F(0.1), F(0.9), F(0.9), F(0.999), F(1e-8)
        match self.update:
            case "add":
                self.w += g
            case "assign":
                self.w[:] = g
            case "sgd":
                self.w -= lr * g
            case "momentum":
                self.m = mu * self.m + g
                self.w -= lr * self.m
            case "adagrad":
                self.v += g * g
                self.w -= lr * g / (np.sqrt(self.v) + F(1e-10))
            case "adam":
                self.m = b1 * self.m + (1 - b1) * g
                self.v = b2 * self.v + (1 - b2) * (g * g)
                c1, c2 = F(1 - 0.9**self.step), F(1 - 0.999**self.step)
                self.w -= lr * (self.m / c1) / (np.sqrt(self.v / c2) + e)


RATES: dict[str, dict[str, float]] = {"add": {}, "assign": {}}
UPDATES = ["add", "assign", "sgd", "momentum", "adagrad", "adam"]


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("elements", [7, 100_003])
def test_a_dense_table_has_the_bits_of_numpy(servers: ParameterServers, update: str, elements: int) -> None:
    random = np.random.default_rng(1)
    rates = RATES.get(update, {"lr": 0.1})
    table = servers.table("w", elements, update=update, consistency=asynchronous, **rates)
    oracle = Oracle(update, (elements,))
    for _ in range(5):
        g = random.standard_normal(elements).astype(F)
        table.push(g)
        oracle.push(g)
        assert table.pull().tobytes() == oracle.w.tobytes()


@pytest.mark.parametrize("update", UPDATES)
def test_a_sparse_table_has_the_bits_of_numpy(servers: ParameterServers, update: str) -> None:
    random = np.random.default_rng(2)
    rates = RATES.get(update, {"lr": 0.1})
    table = servers.table("e", width=5, update=update, consistency=asynchronous, **rates)
    oracles = {key: Oracle(update, (5,)) for key in range(-50, 50)}
    for _ in range(10):
        keys = random.choice(np.arange(-50, 50), 40, replace=False)
        g = random.standard_normal((40, 5)).astype(F)
        table.push(keys, g)
        for key, row in zip(keys, g, strict=True):
            oracles[key].push(row)
    wanted = random.permutation(np.arange(-50, 50))
    assert table.pull(wanted).tobytes() == np.stack([oracles[key].w for key in wanted]).tobytes()


@pytest.mark.parametrize("consistency", [asynchronous, bsp, ssp(2)], ids=str)
def test_keys_that_are_repeated_are_added_up(servers: ParameterServers, consistency: Any) -> None:
    table = servers.table("e", width=2, dtype=np.int64, consistency=consistency)
    keys = np.array([3, 1, 3, 3, -(2**62), 1])
    table.push(keys, np.arange(12).reshape(6, 2))
    table.clock()
    assert table.pull([1, 3, -(2**62), 9]).tolist() == [[12, 14], [10, 13], [8, 9], [0, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint16, np.int32, np.int64])
def test_tables_of_every_type_add(servers: ParameterServers, dtype: Any) -> None:
    table = servers.table("w", (3, 4), dtype=dtype, consistency=asynchronous)
    values = np.arange(12, dtype=dtype).reshape(3, 4)
    assert (table.push_pull(values) == values).all()
    assert (table.push_pull(values, out=np.empty((3, 4), dtype)) == 2 * values).all()


@pytest.mark.parametrize(("wire", "kind"), [("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)])
def test_values_may_travel_in_half_precision(servers: ParameterServers, wire: str, kind: Any) -> None:
    values = np.random.default_rng(3).standard_normal(1000).astype(F)
    dense = servers.table("w", 1000, wire=wire, consistency=asynchronous)
    dense.push(values)
    assert (dense.pull() == values.astype(kind).astype(F)).all()
    sparse = servers.table("e", width=10, wire=wire)
    sparse.push(np.arange(100), values.reshape(100, 10))
    sparse.clock()
    assert (sparse.pull(np.arange(100)).ravel() == values.astype(kind).astype(F)).all()


@pytest.mark.parametrize("consistency", [bsp, ssp(3), essp(3)], ids=str)
@pytest.mark.parametrize("update", ["add", "sgd"])
def test_a_worker_reads_its_own_writes(servers: ParameterServers, consistency: Any, update: str) -> None:
    rates = {} if update == "add" else {"lr": 0.5}
    sign = F(1 if update == "add" else -0.5)
    dense = servers.table("w", 10, update=update, consistency=consistency, **rates)
    sparse = servers.table("e", width=2, update=update, consistency=consistency, **rates)
    for n in range(1, 20):
        dense.push(np.ones(10))
        sparse.push([4, 4], np.full((2, 2), 0.5))
        assert (dense.pull() == sign * n).all()
        assert (sparse.pull([4, 5]) == [[sign * n] * 2, [0, 0]]).all()
        if n % 3 == 0:
            dense.clock()
            sparse.clock()
        assert (dense.pull() == sign * n).all()
        assert (sparse.pull([4]) == sign * n).all()


@pytest.mark.parametrize("consistency", [bsp, ssp(3), essp(3)], ids=str)
def test_a_worker_reads_what_it_has_assigned(servers: ParameterServers, consistency: Any) -> None:
    dense = servers.table("w", 10, update="assign", consistency=consistency)
    sparse = servers.table("e", width=2, update="assign", consistency=consistency)
    for n in range(1, 20):
        dense.push(np.full(10, -n))
        dense.push(np.full(10, n))  # the last one counts
        sparse.push([4, 4], [[-n, -n], [n, 2 * n]])
        for _ in range(2):
            assert (dense.pull() == n).all()
            assert sparse.pull([4, 5]).tolist() == [[n, 2 * n], [0, 0]]
            if n % 3 == 0:
                dense.clock()
                sparse.clock()
    assert (dense.pull(info=True)[0] == 19).all()
    assert sparse.pull([4], info=True)[0].tolist() == [[19, 38]]


def test_updates_of_a_nonlinear_rule_show_after_the_clock(servers: ParameterServers) -> None:
    table = servers.table("w", 3, update="adam", lr=0.1, consistency=ssp(3))
    table.pull()
    table.push(np.ones(3))
    table.clock()
    assert np.allclose(table.pull(), -0.1)


def test_pulls_that_the_bound_allows_are_served_here(servers: ParameterServers) -> None:
    table = servers.table("w", 10, consistency=ssp(5))
    table.pull()
    for _ in range(5):
        table.clock()
        table.pull()
    table.prefetch().wait()
    assert table.reads.cached == 5
    assert table.reads.worst == 5
    table.clock()
    assert table.pull(info=True)[1].staleness == 0
    assert "max observed 5 ≤ 5 over 7 reads, 5 of them served here" in servers.report()


def test_servers_send_what_was_read_before_by_themselves(servers: ParameterServers) -> None:
    options: dict[str, Any] = {"update": "momentum", "lr": 0.5}  # which a worker cannot add up by itself
    for consistency, served_here in ((essp(3), 3), (ssp(3), 0)):
        dense = servers.table(f"w {consistency}", 10, consistency=consistency, **options)
        sparse = servers.table(f"e {consistency}", width=2, consistency=consistency, **options)
        dense.pull()
        sparse.pull([4])
        for _ in range(3):
            dense.push(np.ones(10))
            sparse.push([4], np.ones((1, 2)))
            dense.clock()
            sparse.clock()
            time.sleep(2 if served_here else 0)  # on their way
            assert dense.pull()[0] == sparse.pull([4])[0, 0] < 0
        assert (dense.reads.cached, sparse.reads.cached) == (served_here, served_here)
        assert (dense.reads.worst, sparse.reads.worst) == (0, 0)


def test_what_was_started_is_done_when_its_handle_says_so(servers: ParameterServers) -> None:
    dense = servers.table("w", 300_000, consistency=asynchronous)
    sparse = servers.table("e", width=3, consistency=asynchronous)
    values = np.arange(300_000, dtype=F)
    handles = [dense.push_async(values) for _ in range(5)]
    handles.append(sparse.push_async([7], np.ones((1, 3))))
    for handle in handles:
        handle.wait()
        assert handle.done
    assert (dense.pull_async().wait() == 5 * values).all()
    assert (sparse.pull_async([7]).wait() == 1).all()


@pytest.mark.parametrize("consistency", [asynchronous, bsp, ssp(2), essp(2)], ids=str)
def test_a_push_and_a_pull_may_be_started_together(servers: ParameterServers, consistency: Any) -> None:
    dense = servers.table("w", 300_000, consistency=consistency)
    sparse = servers.table("e", width=3, consistency=consistency)
    out, rows = np.empty(300_000, F), np.empty((3, 3), F)
    for n in range(1, 6):
        whole = dense.push_pull_async(np.ones(300_000), out)
        some = sparse.push_pull_async([7, 8, 7], np.ones((3, 3)), rows)
        assert whole.wait() is out
        assert some.wait() is rows
        assert (out == n).all()
        assert rows.tolist() == [[2 * n] * 3, [n] * 3, [2 * n] * 3]
        if n % 2:
            dense.clock()
            sparse.clock()
    assert (dense.reads.count, sparse.reads.count) == (5, 5)
    assert (dense.push_pull_async(np.ones(300_000)).wait() == 6).all()
    assert sparse.push_pull_async([9], [[1, 2, 3]]).wait().tolist() == [[1, 2, 3]]
    with pytest.raises(ConfigError, match="out has to be"):
        dense.push_pull_async(np.ones(300_000), np.empty(3, F))
    assert (dense.pull() == 6).all()  # what is refused was not pushed


def test_a_clock_of_an_asynchronous_table_acknowledges_what_was_pushed_in_it(servers: ParameterServers) -> None:
    dense = servers.table("w", 300_000, consistency=asynchronous)
    sparse = servers.table("e", width=3, consistency=asynchronous)
    for clock in range(5):
        handles: list[Any] = [dense.push_async(np.ones(300_000)) for _ in range(4)]
        handles.append(dense.push_pull_async(np.ones(300_000)))
        dense.clock()
        assert all(handle.done for handle in handles)
        handle = sparse.push_async(np.arange(1000), np.ones((1000, 3)))
        sparse.clock()
        assert handle.done
        assert (dense.now, sparse.now) == (clock + 1, clock + 1)


def test_reads_of_an_asynchronous_table_know_their_staleness(servers: ParameterServers) -> None:
    table = servers.table("w", 3, consistency=asynchronous)
    for clock in range(4):
        table.push(np.ones(3))
        table.clock()
        assert table.pull(info=True)[1][:2] == (clock + 1, 0)  # all that there is
    table.push_pull(np.ones(3))
    assert table.reads.staleness == {0: 5}
    assert servers.status()["tables"]["w"]["clocks"] == {"0": 4}
    first, *others = servers.report().splitlines()
    assert first == "table 'w', asynchronous, worker 0: max observed 0, without a bound, over 5 reads"
    assert len(others) == 1
    assert "0 clocks old         5 reads" in others[0]


def test_the_histogram_of_many_ages_has_few_lines() -> None:
    reads = Reads(0, None)
    for staleness in range(100):
        reads.note((staleness, 0, -1, 0, 0, 0, 1))
    first, *lines = reads.summary("w", "asynchronous").splitlines()
    assert "max observed 99" in first
    assert len(lines) == 20
    assert lines[0].startswith("  0-4 clocks old         5 reads ██")
    assert lines[-1].startswith("  95-99 clocks old         5 reads ██")


def test_names_of_tables_are_any_texts(servers: ParameterServers) -> None:
    names = ["it's", 'a "b" \\ c', "two\nlines\t\x01", "größe", ""]
    for name in names:
        servers.table(name, 3).clock()
    assert {name: table["slowest"] for name, table in servers.status()["tables"].items()} == dict.fromkeys(names, 1)


def test_first_values(servers: ParameterServers) -> None:
    array = np.arange(6, dtype=F).reshape(2, 3)
    assert (servers.table("given", (2, 3), init=array).pull() == array).all()
    assert (servers.table("constant", 4, init=2.5).pull() == 2.5).all()
    rows = servers.table("uniform", width=8, init="uniform", scale=0.5, seed=1).pull(np.arange(1000))
    assert abs(rows).max() <= 0.5
    assert abs(rows.mean()) < 0.02
    assert len(np.unique(rows)) > 7900
    again = servers.table("again", width=8, init="uniform", scale=0.5, seed=1).pull(np.arange(1000))
    assert (rows == again).all()


def test_a_rule_of_the_users_runs_on_the_server_with_its_state(servers: ParameterServers) -> None:
    dense = servers.table("w", 4, update=Clipped, consistency=asynchronous, lr=0.5, limit=1.0)
    dense.push(np.array([0.5, -3, 2, 0]))
    assert dense.pull().tolist() == [-0.25, 0.5, -0.5, 0]
    sparse = servers.table("e", width=2, update="tests.server.rule:Clipped", lr=0.5, limit=1.0)
    sparse.push([9, 5], np.array([[4, 0.5], [-4, 0]]))
    sparse.clock()
    assert sparse.pull([5, 9]).tolist() == [[0.5, 0], [-0.5, -0.25]]


def test_a_rule_that_raises_ends_the_server_and_says_so(servers: ParameterServers) -> None:
    table = servers.table("w", 4, update=Broken, consistency=asynchronous)
    with pytest.raises(PeerLost, match=r"(?s)rule tests\.server\.rule:Broken.*this rule is broken"):
        table.push(np.zeros(4))
    with pytest.raises(PeerLost, match="this rule is broken"):
        servers.status()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"shape": 3, "update": "sgdd", "lr": 1}, "did you mean 'sgd'"),
        ({"shape": 3, "update": "sgd"}, "needs lr="),
        ({"shape": 3, "update": "add", "lr": 1}, "does not know lr"),
        ({"shape": 3, "width": 3}, "not both"),
        ({}, "not both or none"),
        ({"width": 0}, "1 to 65536"),
        ({"shape": (2, -1)}, "is no shape"),
        ({"shape": 3, "dtype": np.float16}, "for the wire"),
        ({"shape": 3, "dtype": np.int32, "update": "sgd", "lr": 1}, "integers can be added"),
        ({"shape": 3, "dtype": np.complex64}, "is not one of"),
        ({"shape": 3, "update": "os:getcwd"}, "no subclass"),
        ({"shape": 3, "update": "nowhere:At"}, "cannot be imported"),
        ({"shape": 3, "update": "tests.server.rule:Unmade"}, "a server cannot make .*KeyError: 'limit'"),
        ({"shape": 3, "update": "tests.server.rule:Idle"}, "has no method `update`"),
        ({"shape": 3, "update": "tests.server.rule:Greedy"}, "slots=9: valid is 0 to 8"),
        ({"shape": 3, "update": Clipped, "limit": float("nan")}, "travel as JSON"),
        ({"shape": 3, "update": Clipped, "limit": "x" * 5000}, "up to 4096 bytes"),
        ({"shape": 3, "update": int}, "a subclass of Rule"),
        ({"shape": 1 << 50}, "room"),
        ({"shape": 3, "init": "random"}, "uniform"),
    ],
)
def test_tables_that_make_no_sense_are_refused(servers: ParameterServers, arguments: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        servers.table("w", **arguments)


def test_arguments_that_do_not_fit_are_refused(servers: ParameterServers) -> None:
    dense, sparse = servers.table("w", (2, 3)), servers.table("e", width=2)
    with pytest.raises(ConfigError, match="shape"):
        dense.push(np.zeros(6))
    with pytest.raises(ConfigError, match="out has to be"):
        dense.pull(out=np.zeros((2, 3)))
    with pytest.raises(ConfigError, match="keys are"):
        sparse.pull([1.5])
    with pytest.raises(ConfigError, match="rows of shape"):
        sparse.push([1, 2], np.zeros((2, 3)))
    with pytest.raises(ConfigError, match="already"):
        servers.table("w", 3)
    with pytest.raises(ConfigError, match="valid is a whole number"):
        ssp(-1)


def test_a_closed_connection_says_so() -> None:
    servers = connect()
    servers.close()
    servers.close()
    with pytest.raises(ConfigError, match="has left"):
        servers.table("w", 3)


def test_names_whose_numbers_collide_are_refused(servers: ParameterServers) -> None:
    servers.table("plumless", 3)
    with pytest.raises(MismatchError, match="plumless"):
        servers.table("buckeroo", 3)  # the same CRC-32


def test_threads_share_a_connection(servers: ParameterServers) -> None:
    dense = servers.counters("w", 50_000, consistency=asynchronous)
    sparse = servers.table("e", width=1, dtype=np.int64, consistency=asynchronous)

    def work(number: int) -> None:
        for _ in range(20):
            dense.push(np.ones(50_000))
            sparse.push([number, 99], [[1], [1]])
            handle = sparse.pull_async([number])
            dense.pull()
            assert handle.wait()[0, 0] > 0

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert (dense.pull() == 80).all()
    assert sparse.pull([0, 1, 2, 3, 99]).ravel().tolist() == [20, 20, 20, 20, 80]


def test_a_forked_child_has_nothing_of_it(servers: ParameterServers) -> None:
    table = servers.table("w", 3, consistency=asynchronous)
    table.push_async(np.ones(3)).wait()  # there is a thread, too
    if (pid := os.fork()) == 0:
        code = 1
        try:
            for call in (servers.status, lambda: table.push(np.ones(3)), table.pull):
                with pytest.raises(ConfigError):
                    call()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert table.pull().tolist() == [1, 1, 1]


def test_a_pull_under_way_is_done_before_the_next_clock(servers: ParameterServers) -> None:
    table = servers.table("w", 3_000_000)
    for n in range(5):
        handle = table.pull_async()
        table.push(np.ones(3_000_000))
        table.clock()
        assert len(np.unique(handle.wait())) == 1, n


def test_first_values_may_be_many(servers: ParameterServers) -> None:
    given = np.random.default_rng(2).normal(size=3_000_000).astype(F)
    table = servers.table("w", given.shape, init=given)
    assert table.pull().tobytes() == given.tobytes()
    table.push(np.ones(given.shape))
    table.clock()
    assert table.pull().tobytes() == (given + F(1)).tobytes()


def test_what_is_only_read_takes_no_room(servers: ParameterServers) -> None:
    table = servers.table("e", width=4, init="uniform", consistency=asynchronous)
    first = table.pull(np.arange(1000))
    table.push([3], np.zeros((1, 4)))
    assert (table.pull(np.arange(1000)) == first).all()
    assert len(np.unique(first)) == 4000


def test_closing_gives_all_descriptors_back() -> None:
    before = os.listdir("/proc/self/fd")
    servers = connect(deadline=20)
    table = servers.table("w", 3, consistency=asynchronous)
    table.push_async(np.ones(3)).wait()
    assert servers.links == ["shm"]
    servers.close()
    assert os.listdir("/proc/self/fd") == before
    with pytest.raises(PeerLost, match="has left"):
        table.pull()


def test_empty_tables_and_pulls_are_fine(servers: ParameterServers) -> None:
    dense, sparse = servers.table("w", (0,)), servers.table("e", width=2)
    dense.push(np.zeros(0))
    dense.clock()
    assert dense.pull().shape == (0,)
    sparse.push([], np.zeros((0, 2)))
    sparse.clock()
    assert sparse.pull([]).shape == (0, 2)
    assert issubclass(MismatchError, UnisonoError)
