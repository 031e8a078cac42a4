"""Which algorithm: by the model, by size, by hosts, and the same on every rank."""

from dataclasses import replace

import pytest

from unisono.interpret.verify import verify
from unisono.schedule.conditions import COLLECTIVES
from unisono.schedule.spelling import parse_algorithm, schedule_named, spell
from unisono.tune.candidates import candidates, shares, slower_than_predicted
from unisono.tune.defaults import COSTS, GAMMA
from unisono.tune.guidelines import GUIDELINES
from unisono.tune.model import Model, path_name
from unisono.tune.place import Path, Place
from unisono.tune.select import Prediction, Selector, best_of
from unisono.tune.terms import kind_of

KB, MB = 1 << 10, 1 << 20
FOUR_HOSTS = Place((1, 1, 1, 1), 2)
SIZES = (8, KB, 4 * KB, 16 * KB, 64 * KB, 128 * KB, MB, 8 * MB, 64 * MB)
ONE_SLOW = FOUR_HOSTS._replace(slow=(16, 16, 16, 64))


def names(collective: str, p: int, place: Place, *sizes: int) -> list[str]:
    selector = Selector(Model(), place)
    return [selector.select(collective, p, nbytes).name for nbytes in sizes]


def test_a_place_knows_the_ranks_of_each_host_only_if_they_are_consecutive() -> None:
    assert Place.of(["a", "a", "b"], 2) == Place((2, 1), 2)
    assert Place.of(["a", "b", "a"], 2) == Place((), 2)
    assert Place.of([], 2) == Place((), 2)
    assert Place.of(["a"] * 3, 2).is_crowded
    assert not Place.of(["a"] * 2, 2).is_crowded
    assert not Place.of(["a", "a", "b", "b"], 2).is_crowded


def test_hosts_on_one_machine_crowd_its_cores() -> None:
    def place(*machines: str) -> Place:
        return Place.of(["a", "b", "b"], 2, machines=list(machines))

    assert place("1", "1", "1") == Place((1, 2), 2, machines=(0, 0))
    assert place("1", "2", "2") == Place.of(["a", "b", "b"], 2) == Place((1, 2), 2)
    assert [kind_of(place("1", other, other)) for other in "12"] == ["wire_crowded", "wire"]
    assert kind_of(Place.of(["a", "b"], 2, machines=["1", "1"])) == "wire"
    assert Place.of(["a", "b", "a"], 2, machines=["1"] * 3) == Place((), 2)


def test_wires_and_paths_that_are_alike_are_not_told_apart() -> None:
    names = ["a", "b", "c"]
    pairs = [(a, b) for a in names for b in names if a != b]
    rates = dict.fromkeys(names, 1e8)
    alike = Model(
        rates=rates,
        path_rates={path_name(*pair): 0.95e8 for pair in pairs},
        path_delays={path_name(*pair): 5e-5 for pair in pairs},
    )
    hosts = Place((1, 1, 1), 2)
    assert alike.at(hosts, names) == hosts
    one = replace(alike, path_rates={**alike.path_rates, path_name("a", "c"): 0.25e8})
    assert one.at(hosts, names).paths == (Path(0, 2, slow=64),)
    far = replace(alike, path_delays={**alike.path_delays, path_name("b", "a"): 1e-4})
    assert far.at(hosts, names).paths == (Path(1, 0, far=32),)
    slow_host = replace(one, rates=rates | {"c": 0.25e8})
    assert slow_host.at(hosts, names)[3:] == ((16, 16, 64), (), ()), "which its wire explains"
    assert one.at(Place((1, 1), 2), ["c", "b"]) == Place((1, 1), 2), "a part of the hosts has its own paths"
    assert Model.read(one.facts()).at(hosts, names) == one.at(hosts, names)


def test_a_slow_path_is_gone_round() -> None:
    across = FOUR_HOSTS._replace(paths=(Path(0, 1, slow=160), Path(1, 0, slow=160)))
    plain, chosen = (Selector(Model(), place) for place in (FOUR_HOSTS, across))
    assert plain.choose("allreduce", 4, 64 * MB) == "ring"
    assert chosen.choose("allreduce", 4, 64 * MB) != "ring", "which goes from 0 to 1"
    beside = FOUR_HOSTS._replace(paths=(Path(0, 2, slow=160), Path(2, 0, slow=160)))
    assert Selector(Model(), beside).choose("allreduce", 4, 64 * MB) == "ring"


def test_ranks_that_share_memory_exchange_short_vectors_and_share_the_work_on_long_ones() -> None:
    for p, cores, short in ((2, 2, "exchange"), (4, 4, "exchange"), (8, 2, "flat"), (40, 2, "flat")):
        place = Place((p,), cores, shares_memory=True)
        assert names("allreduce", p, place, 8, 64 * KB * 4, 64 * MB) == [short, "direct", "direct"]
    many = Place((64,), 2, shares_memory=True)
    assert not {"exchange", "direct"} & set(names("allreduce", 64, many, 8, 64 * MB)), "these have too many messages"


def test_more_ranks_than_cores_send_few_messages_of_small_vectors() -> None:
    assert names("allreduce", 4, Place((4,), 2), 8, 16 * KB) == ["mst"] * 2
    assert names("allreduce", 4, Place((4,), 8), 8) == ["exchange"]


def test_between_hosts_large_vectors_go_round_a_ring() -> None:
    for collective in ("allreduce", "allgather", "reduce_scatter"):
        assert names(collective, 4, FOUR_HOSTS, 64 * MB) == ["ring"]
    assert names("allreduce", 4, FOUR_HOSTS, 8) != ["ring"]
    many = Place((1,) * 16, 2)
    assert not {"direct", "exchange", "flat"} & set(names("allreduce", 16, many, 8, 16 * KB, 256 * KB, 64 * MB))


def test_hosts_with_several_ranks_are_a_hierarchy() -> None:
    schedule = Selector(Model(), Place((2, 3), 2)).select("allreduce", 5, 64 * MB)
    assert (schedule.name, schedule.parameters["hosts"]) == ("hierarchical", (2, 3))
    assert names("allreduce", 5, Place((), 2), 64 * MB) == ["ring"], "of scattered ranks there is none"


def test_a_host_with_a_slow_wire_adds_up_nothing_for_the_others() -> None:
    for place in (ONE_SLOW, ONE_SLOW._replace(machines=(0, 0, 0, 0))):
        schedule = Selector(Model(), place).select("allreduce", 4, 64 * MB)
        assert schedule.name == "weighted"
        assert schedule.parameters["shares"][3] == 0
        assert len(set(schedule.parameters["shares"][:3])) == 1


def test_shares_are_those_for_which_the_busiest_wire_is_through_first() -> None:
    for slow in ((16, 16, 16, 17), (16, 20, 30, 64), (16, 16, 64, 64), (16, 32, 32, 32), (16, 16, 16, 16, 40)):
        count = len(slow)
        best = _time(shares(Place((1,) * count, 2, slow=slow)), slow)
        for host in range(count):
            for other in range(count):
                moved = list(shares(Place((1,) * count, 2, slow=slow)))
                moved[host], moved[other] = moved[host] - 5, moved[other] + 5
                if host != other and min(moved) >= 0:
                    assert _time(tuple(moved), slow) >= best * 0.99


def _time(given: tuple[int, ...], slow: tuple[int, ...]) -> float:
    return max(s * (1 + (len(slow) - 2) * w / sum(given)) for s, w in zip(slow, given, strict=True))


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_whatever_is_selected_is_right(collective: str) -> None:
    for p in (1, 2, 3, 4, 8, 9):
        for place in (Place((p,), 2, shares_memory=True), Place((p,), 2), Place((p,), 16), Place((1,) * p, 2), Place()):
            selector = Selector(Model(), place)
            for nbytes in (0, 8, 64 * KB, 64 * MB):
                schedule = selector.select(collective, p, nbytes, p // 2)
                assert schedule.workers == p
                assert verify(schedule.table).right


def test_every_candidate_is_right_also_for_unequal_wires() -> None:
    for place in (ONE_SLOW, FOUR_HOSTS, Place((2, 2), 2)):
        for text in candidates("allreduce", 4, MB, place):
            assert verify(schedule_named("allreduce", text, 4).table).right


def test_reproducible_is_what_folds_from_the_left() -> None:
    for place in (Place((4,), 2), FOUR_HOSTS, Place((4,), 2, shares_memory=True)):
        for nbytes in (8, 64 * MB):
            selector = Selector(Model(), place)
            assert selector.select("allreduce", 4, nbytes, reproducible=True).name in ("direct", "exchange")


def test_many_ranks_are_chosen_for_without_looking_at_all_their_messages() -> None:
    for p in (65, 1000):
        place = Place((1,) * p, 2)
        assert names("allreduce", p, place, 1 << 30) == ["ring"]
        assert names("allreduce", p, place, 8)[0] in ("mst", "recursive_doubling", "circulant", "halving_doubling")


def test_other_prices_give_other_choices() -> None:
    no_waits = {**COSTS, "wire": {"wire_in_step": 1e-8}}
    only_rounds = {**COSTS, "wire": {"round": 1e-3}}
    big = Selector(Model(no_waits), FOUR_HOSTS).predictions("allreduce", 4, MB, "ring")
    assert big[0].seconds == pytest.approx(1.5 * MB * 1e-8)
    assert Selector(Model(only_rounds), FOUR_HOSTS).select("allreduce", 4, 64 * MB).name == "exchange"


def places(p: int) -> dict[str, Place]:
    crowded = {
        "memory, crowded": Place((p,), 2, shares_memory=True),
        "tcp, crowded": Place((p,), 2),
        "wire, crowded": Place((1,) * p, 2, machines=(0,) * p),
    }
    return {
        "memory": Place((p,), max(2, p), shares_memory=True),
        "tcp": Place((p,), max(2, p)),
        "wire": Place((1,) * p, 2),
        **(crowded if p > 2 else {}),
    }


@pytest.mark.parametrize("p", [2, 3, 4, 5, 8])
def test_guidelines_hold_in_predictions(p: int) -> None:
    for name, place in places(p).items():
        selector = Selector(Model(), place)
        most = 1.25 if name == "memory" and p > 4 else 1.15  # by prices of two ranks

        def seconds(collective: str, nbytes: int, selector: Selector = selector) -> float:
            chosen = selector.choose(collective, p, nbytes)
            return selector.model.seconds(collective, chosen, p, nbytes, selector.place)

        for nbytes in SIZES:
            for whole, parts in GUIDELINES:
                if whole in ("allgather", "reduce_scatter") and place.is_crowded:
                    continue  # what has a root would be no faster: `slower_than_predicted`
                ratio = seconds(whole, nbytes) / sum(seconds(part, nbytes) for part in parts)
                assert round(ratio, 2) <= most, (name, nbytes, whole, parts)


@pytest.mark.parametrize("p", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_no_algorithm_is_predicted_to_be_much_faster_than_the_chosen_one(collective: str, p: int) -> None:
    """Of all in the catalogue, but for those that were measured not to be."""
    for name, place in places(p).items():
        selector = Selector(Model(), place)
        slower = slower_than_predicted(collective, p, place)
        for nbytes in SIZES if collective != "barrier" else (0,):
            chosen, *others = selector.predictions(collective, p, nbytes, selector.choose(collective, p, nbytes))
            for other in others:
                if other.algorithm.partition(":")[0] not in slower:
                    assert round(chosen.seconds / other.seconds, 2) <= 1.15, (name, nbytes, chosen, other)


def test_slow_conversions_count_where_they_change_the_order() -> None:
    model = Model(gamma={"float32 sum": 1e-10, "float16 sum": 1e-7})
    place = Place((2,), 2, shares_memory=True)
    plain = model.seconds("allreduce", "exchange", 2, 4 * KB, place)
    assert model.seconds("allreduce", "exchange", 2, 4 * KB, place, "float16") == pytest.approx(
        plain + (1e-7 - 1e-10) * 4 * KB
    )
    assert Selector(model, place).choose("allreduce", 2, 4 * KB, dtype="float16") == "direct"
    assert Selector(model, place).choose("allreduce", 2, 4 * KB) == "exchange"


def test_an_operator_that_nobody_measured_costs_what_sums_of_its_type_cost() -> None:
    model = Model.read({"gamma": {"float32 sum": 1e-11, "float64 sum": 2e-11, "bfloat16 prod": 3e-10}})
    assert model.gamma_of("float64", "avg") == 2e-11
    assert model.gamma_of("bfloat16", "prod") == 3e-10
    assert model.gamma_of("bfloat16", "avg") == GAMMA["bfloat16 sum"], "which was not measured either"
    assert model.gamma_of("uint8", "xor") == 1e-11
    for dtype in ("float16", "bfloat16"):
        assert GAMMA[f"{dtype} sum"] > GAMMA["float32 sum"], "they are added as float32"
    place = Place((2,), 2, shares_memory=True)
    average, total = (Model().seconds("allreduce", "direct", 2, MB, place, "bfloat16", op) for op in ("avg", "sum"))
    assert average == total > Model().seconds("allreduce", "direct", 2, MB, place)


def test_of_equal_predictions_the_first_is_taken() -> None:
    assert best_of([Prediction("a", 1.04), Prediction("b", 1.0), Prediction("c", 2.0)], 1.05).algorithm == "a"
    assert best_of([Prediction("a", 1.5), Prediction("b", 1.0)], 1.05).algorithm == "b"


def test_what_is_spelled_is_read_again() -> None:
    for parameters in ({}, {"segments": 4}, {"hosts": (3,)}, {"shares": (1, 2, 0), "segments": 2}):
        assert parse_algorithm("allreduce", spell("ring", parameters))[1] == parameters
