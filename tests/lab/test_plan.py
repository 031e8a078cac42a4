"""What a lab may be: rates, names, hosts, and where ranks go. Needs no privileges."""

import sys
from pathlib import Path

import pytest
from tests.launcher.processes import complaint

from unisono.errors import ConfigError
from unisono.lab import Lab
from unisono.lab.host import Host
from unisono.lab.job import LabJob, spread
from unisono.lab.plan import make_plan
from unisono.lab.rates import format_rate, parse_rate


@pytest.mark.parametrize(
    ("text", "bits"),
    [("1gbit", 10**9), ("100Mbit", 10**8), ("2.5gbit", 2_500_000_000), (" 10 Gbit ", 10**10), ("1000kbit", 10**6)],
)
def test_rates_are_read_as_tc_writes_them(text: str, bits: int) -> None:
    assert parse_rate(text) == bits
    assert parse_rate(format_rate(bits)) == bits


def test_a_host_may_have_a_rate_of_its_own() -> None:
    assert make_plan("lab", 3, "1gbit", {"host1": "100mbit"}).rates == (10**9, 10**8, 10**9)
    assert make_plan("lab", 2, None, {"host1": "100mbit"}).rates == (None, 10**8)


def test_what_a_rank_cannot_run_without_is_shared() -> None:
    for directory in (Path(sys.prefix), Path.cwd()):
        hidden = Path("/tmp") in directory.resolve().parents
        shared = make_plan("lab", 2).shared
        assert any(directory.resolve().is_relative_to(path) for path in shared) == hidden


def test_a_directory_is_not_shared_twice(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    shared = make_plan("lab", 2, share=[tmp_path / "below", tmp_path]).shared
    assert [path for path in shared if path.startswith(str(tmp_path))] == [str(tmp_path)]


@pytest.mark.parametrize(
    ("ranks", "hosts", "blocks"),
    [(8, 4, [2, 2, 2, 2]), (6, 4, [2, 2, 1, 1]), (2, 4, [1, 1, 0, 0]), (1, 1, [1]), (5, 2, [3, 2])],
)
def test_ranks_are_spread_in_blocks(ranks: int, hosts: int, blocks: list[int]) -> None:
    all_hosts = [Host(f"host{number}", 0, 0, "", None) for number in range(hosts)]
    places = [host.name for host in spread(ranks, all_hosts)]
    assert places == sorted(places)
    assert [places.count(host.name) for host in all_hosts] == blocks


def test_every_host_counts_its_own_ranks() -> None:
    job = LabJob(3, 2, rendezvous="10.77.0.1:1", hosts=("host0", "host0", "host1"))
    told = [job.variables(rank) for rank in range(3)]
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "HOST", "RENDEZVOUS")
    assert [[variables[f"UNISONO_{name}"] for name in names] for variables in told] == [
        ["0", "3", "0", "2", "host0", "10.77.0.1:1"],
        ["1", "3", "1", "2", "host0", "10.77.0.1:1"],
        ["2", "3", "0", "1", "host1", "10.77.0.1:1"],
    ]


NONSENSE = [
    (["up", "--hosts", "0"], "the nearest is 1"),
    (["up", "--hosts", "-3"], "the nearest is 1"),
    (["up", "--hosts", "1000"], "the nearest is 64"),
    (["up", "--hosts", "four"], "--hosts"),
    (["up", "--rate", "1gibt"], "did you mean '1gbit'?"),
    (["up", "--rate", "1gbps"], "did you mean '1gbit'?"),
    (["up", "--rate", "100"], "did you mean '100gbit'?"),
    (["up", "--rate", "fast"], "write it as 1gbit"),
    (["up", "--rate", "-1gbit"], "write it as 1gbit"),
    (["up", "--rate", "0mbit"], "the nearest is 1mbit"),
    (["up", "--rate", "7tbit"], "the nearest is 1tbit"),
    (["up", "--hosts", "4", "--rate", "host4=1gbit"], "did you mean 'host"),
    (["up", "--hosts", "4", "--rate", "hots3=1gbit"], "did you mean 'host3'?"),
    (["up", "--rate", "host0=1gbot"], "did you mean '1gbit'?"),
    (["up", "--rate", "1gbit", "--rate", "2gbit"], "all hosts have a rate of 1gbit already"),
    (["up", "--rate", "host0=1gbit", "--rate", "host0=2gbit"], "host0 has a rate of 1gbit already"),
    (["up", "--name", "../lab"], "cannot be the name of a lab"),
    (["up", "--share", "/no/such"], "no such directory"),
    (["up", "--share", "/tmp"], "share a directory in it"),
    (["rnu"], "rnu"),
]


@pytest.mark.parametrize(("arguments", "hint"), NONSENSE, ids=lambda x: " ".join(x) if isinstance(x, list) else "")
def test_nonsense_gets_one_line_and_exit_code_2(arguments: list[str], hint: str, monkeypatch, capfd) -> None:
    assert hint in complaint(["lab", *arguments], monkeypatch, capfd)


def test_a_lab_that_is_not_up_says_so() -> None:
    with pytest.raises(ConfigError, match="not up"):
        Lab().bytes_sent()
