"""Every algorithm of the catalogue is right, for any number of ranks, any root and any parameters."""

from math import prod
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.interpret.executor import Values, harm

from unisono.errors import ScheduleError
from unisono.interpret.verify import verify
from unisono.schedule import catalog
from unisono.schedule.algorithm import Algorithm
from unisono.schedule.catalog import algorithms, find
from unisono.schedule.schedule import Table

BUILT_IN = algorithms()
every_algorithm = pytest.mark.parametrize("algorithm", BUILT_IN, ids=lambda x: f"{x.collective.name}-{x.name}")

ASKED_FOR = {
    "broadcast": {"flat", "direct", "mst", "ring", "recursive_doubling", "pipelined_chain"},
    "reduce": {"flat", "direct", "mst", "ring", "recursive_halving"},
    "scatter": {"flat", "mst"},
    "gather": {"flat", "mst"},
    "allgather": {"flat", "mst", "ring", "recursive_doubling", "bruck", "direct"},
    "reduce_scatter": {"mst", "ring", "recursive_halving", "circulant", "direct"},
    "allreduce": {
        *("flat", "mst", "exchange", "direct", "ring", "recursive_doubling", "halving_doubling", "circulant"),
        *("mesh_2d", "mesh_3d", "hierarchical", "double_binary_tree", "weighted"),
        *("parameter_servers", "dedicated_servers"),
    },
    "alltoall": {"pairwise", "bruck"},
    "barrier": {"dissemination", "exchange", "flat"},
    "scan": {"recursive_doubling"},
}
IN_RANK_ORDER = {
    "reduce": {"flat", "direct", "mst"},
    "reduce_scatter": {"mst", "direct"},
    "allreduce": {
        *("flat", "mst", "exchange", "direct", "recursive_doubling", "weighted"),
        *("parameter_servers", "dedicated_servers"),
    },
    "scan": {"recursive_doubling"},
    "barrier": {"exchange", "flat"},
}


def roots(algorithm: Algorithm, p: int) -> list[int]:
    """All roots up to 16 ranks, some above; one if the algorithm has none."""
    if "root" not in algorithm.pattern.parameters:
        return [0]
    return list(range(p)) if p <= 16 else Random(p).sample(range(p), 3)


def compose(left: Values, right: Values) -> Values:
    """First x -> ax + b, then x -> cx + d (modulo 2³²): associative, and not commutative."""
    low = np.uint64(0xFFFFFFFF)
    a, b, c, d = left >> np.uint64(32), left & low, right >> np.uint64(32), right & low
    return ((a * c & low) << np.uint64(32)) | (c * b + d & low)


def assert_right(table: Table) -> None:
    """Both by proof and by experiment."""
    assert verify(table).problems == ()
    assert harm(table, seed=table.p) is None


@every_algorithm
def test_it_is_right_for_up_to_64_ranks_and_every_root(algorithm):
    for p in range(1, 65):
        for root in roots(algorithm, p):
            assert verify(algorithm.schedule(p, root).table).problems == (), f"{p} ranks, root {root}"


@every_algorithm
def test_it_computes_the_right_numbers_in_any_interleaving(algorithm):
    rng = Random(algorithm.name)
    for p in range(1, 10):
        root = rng.choice(roots(algorithm, p))
        assert harm(algorithm.schedule(p, root).table, seed=rng.getrandbits(32)) is None, f"{p} ranks, root {root}"


@every_algorithm
def test_it_reduces_in_rank_order_if_it_is_known_to(algorithm):
    expected = not algorithm.collective.reduces or algorithm.name in IN_RANK_ORDER.get(algorithm.collective.name, ())
    tables = [algorithm.schedule(p, root).table for p in range(1, 18) for root in roots(algorithm, p)]
    assert all(verify(table).in_rank_order for table in tables) is expected


@pytest.mark.parametrize("collective", ["reduce", "reduce_scatter", "allreduce", "scan"])
def test_what_verify_calls_rank_order_is_what_a_product_that_does_not_commute_needs(collective):
    for algorithm in algorithms(collective):
        for p in range(1, 10):
            table = algorithm.schedule(p, root=p // 2).table
            in_order = harm(table, seed=p, runs=1, combine=compose) is None
            assert verify(table).in_rank_order is in_order, f"{algorithm.name} on {p} ranks"


@every_algorithm
def test_it_says_what_it_does_in_one_line(algorithm):
    assert 10 < len(algorithm.summary) < 120
    assert "\n" not in algorithm.summary
    assert algorithm.summary[0].isupper()
    assert algorithm.summary.endswith(".")


def test_the_catalogue_has_every_algorithm_that_was_asked_for():
    names = {(algorithm.collective.name, algorithm.name) for algorithm in BUILT_IN}
    assert names == {(collective, name) for collective, names in ASKED_FOR.items() for name in names}


@given(hosts=st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple))
def test_hierarchical_allreduce_is_right_on_hosts_of_any_sizes(hosts):
    assert_right(find("allreduce", "hierarchical").schedule(sum(hosts), hosts=hosts).table)


@given(dims=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple).filter(lambda dims: prod(dims) <= 36))
def test_mesh_allreduce_is_right_in_any_dimensions(dims):
    assert_right(find("allreduce", "mesh_2d").schedule(prod(dims), dims=dims).table)


@given(data=st.data(), name=st.sampled_from(["parameter_servers", "dedicated_servers"]), p=st.integers(1, 10))
def test_parameter_servers_are_right_in_any_number(data, name, p):
    most = p if name == "parameter_servers" else max(1, p - 1)
    servers, segments = data.draw(st.integers(1, most)), data.draw(st.integers(1, 4))
    assert_right(find("allreduce", name).schedule(p, servers=servers, segments=segments).table)


@given(
    name=st.sampled_from([("broadcast", "pipelined_chain"), ("allreduce", "double_binary_tree")]),
    place=st.integers(1, 12).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p - 1))),
    segments=st.integers(1, 9),
)
def test_pipelines_are_right_with_any_number_of_segments(name, place, segments):
    p, root = place
    assert_right(find(*name).schedule(p, root, segments=segments).table)


@given(shares=st.lists(st.integers(0, 9), min_size=1, max_size=8).map(tuple).filter(any), segments=st.integers(1, 4))
def test_weighted_allreduce_is_right_with_any_shares_and_hands_them_on(shares, segments):
    schedule = find("allreduce", "weighted").schedule(len(shares), shares=shares, segments=segments)
    assert_right(schedule.table)
    assert schedule.shares.tolist() == list(shares) * segments
    assert schedule.blocks == len(shares) * segments


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("allreduce", "rign"), "no algorithm for allreduce is called 'rign'; did you mean 'ring'?"),
        (("allreduc", "ring"), "no collective is called 'allreduc'; did you mean 'allreduce'?"),
        (("scan", "xyz"), "no algorithm for scan is called 'xyz'; there are: recursive_doubling"),
    ],
)
def test_a_name_that_is_not_known_brings_up_the_nearest(names, message):
    with pytest.raises(ScheduleError) as caught:
        find(*names)
    assert str(caught.value) == message


def test_a_collective_that_is_not_known_has_no_algorithms():
    with pytest.raises(ScheduleError, match="did you mean 'gather'"):
        algorithms("gathr")


def test_a_name_can_be_taken_only_once():
    before = algorithms("allreduce")
    with pytest.raises(ScheduleError, match="allreduce has an algorithm 'ring' already"):
        catalog.add(find("allreduce", "ring"))
    assert algorithms("allreduce") == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"p": 0}, "a schedule needs at least 1 rank, not 0"),
        ({"p": -3}, "a schedule needs at least 1 rank, not -3"),
        ({"p": 4, "root": 4}, "root 4 is out of range: 4 ranks are numbered 0 to 3"),
        ({"p": 4, "root": -1}, "root -1 is out of range: 4 ranks are numbered 0 to 3"),
        ({"p": 4, "hosts": (4,)}, "mst has no parameter 'hosts'; it has: none"),
    ],
)
def test_ranks_roots_and_parameters_that_do_not_exist_are_refused(arguments, message):
    with pytest.raises(ScheduleError) as caught:
        find("broadcast", "mst").schedule(**arguments)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "p", "parameters", "rule"),
    [
        ("hierarchical", 4, {"hosts": (2, 3)}, "the number of ranks of each host"),
        ("hierarchical", 4, {"hosts": (4, 0)}, "the number of ranks of each host"),
        ("mesh_2d", 6, {"dims": (2, 2)}, "the extents of a mesh"),
        ("double_binary_tree", 4, {"segments": 0}, "a whole number from 1 up"),
        ("double_binary_tree", 4, {"segments": 1.5}, "a whole number from 1 up"),
        ("weighted", 3, {"shares": (1, 2)}, "a whole number for each rank"),
        ("weighted", 2, {"shares": (0, 0)}, "a whole number for each rank"),
        ("parameter_servers", 4, {"servers": 5}, "a whole number from 1 to that of the ranks"),
        ("dedicated_servers", 4, {"servers": 4}, "a whole number from 1 to one less"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_refused_with_the_rule(name, p, parameters, rule):
    with pytest.raises(ScheduleError, match=rule):
        find("allreduce", name).schedule(p, **parameters)
