"""When a push is acknowledged, and what becomes of one that servers have no room for."""

import numpy as np
import pytest

from unisono.errors import ConfigError
from unisono.server import Consistency, asynchronous, bsp, connect, ssp


@pytest.mark.parametrize("consistency", [bsp, ssp(2)], ids=str)
def test_a_push_that_a_clock_carries_is_done_with_the_clock(consistency: Consistency) -> None:
    with connect(deadline=20) as servers:
        dense = servers.counters("w", 3, consistency=consistency)
        sparse = servers.table("e", width=1, consistency=consistency)
        array = np.ones(3)
        handles = [dense.push_async(array), sparse.push_async([1], [[1]])]
        array[:] = 77  # it was copied
        for handle in handles:
            assert not handle.done
            with pytest.raises(ConfigError, match=r"not sent before clock\(\).*call that first"):
                handle.wait()
        dense.clock()
        sparse.clock()
        for handle in handles:
            assert handle.done
            handle.wait()
        assert dense.pull().tolist() == [1, 1, 1]
        assert not dense.push_async(array).done


def test_a_clock_that_servers_have_no_room_for_is_forgotten_and_the_table_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNISONO_SERVER_MEMORY", "2000000")
    with connect(deadline=20) as servers:
        table = servers.table("b", width=64)
        handle = table.push_async(np.arange(20_000), np.ones((20_000, 64)))
        with pytest.raises(ConfigError, match=r"no room for more of it.*is forgotten; the table goes on"):
            table.clock()
        assert handle.done
        with pytest.raises(ConfigError, match="is forgotten"):
            handle.wait()
        assert table.now == 0
        for clock in range(1, 4):
            table.push([1], np.ones((1, 64)))
            table.clock()
            assert table.now == clock
            assert (table.pull([1, 2]) == [[clock], [0]]).all()


def test_rows_beyond_the_quota_are_refused_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNISONO_SERVER_MEMORY", "2000000")
    with connect(deadline=20) as servers:
        table = servers.table(
            "e", width=64, update="adam", lr=0.1, dtype=np.float64, wire="float16", consistency=asynchronous
        )
        pushed = 0

        def push_many() -> None:
            nonlocal pushed
            while pushed < 100_000:
                table.push(np.arange(pushed, pushed + 100), np.ones((100, 64)))
                pushed += 100

        with pytest.raises(ConfigError, match="no room for more of it"):
            push_many()
        assert pushed > 0
        assert servers.status()["tables"]["e"]["bytes"] <= 2_000_000
        table.push(np.arange(100), np.ones((100, 64)))
        assert (table.pull([1]) < 0).all()


def test_a_wide_row_takes_the_room_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNISONO_SERVER_MEMORY", "3000000")
    with connect(deadline=20) as servers:
        table = servers.table("w", width=65536, consistency=ssp(8))
        for clock in range(1, 4):
            table.push([clock], np.ones((1, 65536)))
            table.clock()
        assert servers.status()["tables"]["w"]["bytes"] < 1_000_000
