"""Choose an algorithm: the one that the model of the machine predicts to be the fastest.

All ranks have to choose the same. They have the same model, that of rank 0, and the same place; and a prediction is a
sum of products of whole numbers and prices, in one order, so it is the same number on every processor.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ..interpret.explain import best_price, explain
from ..interpret.machine import Link, Machine
from ..interpret.price import price
from ..schedule.catalog import built_in, find
from ..schedule.schedule import Schedule
from ..schedule.spelling import schedule_named, spell
from .candidates import AT_ONCE, SHORT, candidates
from .model import Model
from .place import Place
from .terms import kind_of

MOST_MESSAGES = 4096
"""Schedules with more messages run over links: to share memory, each rank has to look at the messages of all."""

MOST_IN_MEMORY, MOST_OVER_LINKS = 8, 64
"""Ranks up to which the work of a schedule is looked at. Of more in shared memory, the choice is that of so many with
vectors that are as large together; over links, it is by the price of rounds."""

MOST_EXPLAINED_IN_MEMORY = 16
MOST_KEPT = 4096

AS_GOOD, AS_GOOD_IN_MEMORY = 1.08, 1.1
"""Predictions that differ by less are equal."""


class Prediction(NamedTuple):
    """An algorithm as it is written, and how many seconds it takes."""

    algorithm: str
    seconds: float


class Selector:
    """Chooses for the ranks of one communicator."""

    def __init__(self, model: Model, place: Place) -> None:
        self.model, self.place = model, place
        self._chosen: dict[tuple[object, ...], str] = {}

    def select(
        self,
        collective: str,
        p: int,
        nbytes: int,
        root: int = 0,
        *,
        dtype: str = "float32",
        op: str = "sum",
        reproducible: bool = False,
    ) -> Schedule:
        """The best schedule for a vector of so many bytes. Reproducible are those that fold from the left."""
        text = self.choose(collective, p, nbytes, dtype=dtype, op=op, reproducible=reproducible)
        return schedule_named(collective, text, p, root)

    def choose(
        self,
        collective: str,
        p: int,
        nbytes: int,
        *,
        dtype: str = "float32",
        op: str = "sum",
        reproducible: bool = False,
    ) -> str:
        """The algorithm, as it is written."""
        key = (collective, p, nbytes, dtype, op, reproducible)
        if key not in self._chosen:
            if len(self._chosen) >= MOST_KEPT:
                self._chosen.clear()
            self._chosen[key] = self._choose(collective, p, nbytes, dtype, op, reproducible)
        return self._chosen[key]

    def predictions(self, collective: str, p: int, nbytes: int, chosen: str) -> list[Prediction]:
        """Of float32 sums by all that are worth a look: the chosen one, and then by time. Of many ranks, only that."""
        if p > (MOST_EXPLAINED_IN_MEMORY if self.place.shares_memory else MOST_OVER_LINKS):
            schedule = schedule_named(collective, chosen, p)
            return [Prediction(chosen, price(schedule, nbytes, self._machine()).time)]
        texts = [chosen, *self._all(collective, p, nbytes, chosen)]
        first, *rest = (self._prediction(collective, text, p, nbytes) for text in texts)
        return [first, *sorted(rest, key=lambda x: x.seconds)]

    @property
    def joined_by(self) -> str:
        """In words."""
        return kind_of(self.place).replace("_", ", ")

    def _all(self, collective: str, p: int, nbytes: int, chosen: str) -> list[str]:
        """The candidates, and what else the catalogue has that every rank contributes to."""
        texts = candidates(collective, p, nbytes, self.place)
        named = {text.partition(":")[0] for text in (chosen, *texts)}
        others = [x.name for x in built_in(collective) if x.name not in named and x.schedule(p).workers == p]
        return [text for text in (*texts, *others) if text != chosen]

    def _prediction(
        self, collective: str, text: str, p: int, nbytes: int, dtype: str = "float32", op: str = "sum"
    ) -> Prediction:
        return Prediction(text, self.model.seconds(collective, text, p, nbytes, self.place, dtype, op))

    def _best(self, collective: str, p: int, nbytes: int, dtype: str, op: str) -> str:
        texts = candidates(collective, p, nbytes, self.place)
        found = [self._prediction(collective, text, p, nbytes, dtype, op) for text in texts]
        return best_of(found, AS_GOOD_IN_MEMORY if self.place.shares_memory else AS_GOOD).algorithm

    def _choose(self, collective: str, p: int, nbytes: int, dtype: str, op: str, reproducible: bool) -> str:
        if p == 1:
            return find(collective, candidates(collective, 1, 0, Place((1,), 1, shares_memory=True))[0]).name
        if reproducible:
            return self._reproducible(collective, p, nbytes)
        if self.place.shares_memory and 2 * p * p > MOST_MESSAGES:
            return self._cheapest(collective, p, nbytes)
        if self.place.shares_memory and p > MOST_IN_MEMORY:
            cores = min(self.place.cores, MOST_IN_MEMORY - 1) if self.place.is_crowded else self.place.cores
            place = self.place._replace(hosts=(MOST_IN_MEMORY,), cores=cores)
            fewer = Selector(self.model, place)
            return fewer._choose(collective, MOST_IN_MEMORY, nbytes * p // MOST_IN_MEMORY, dtype, op, False)
        if p > MOST_OVER_LINKS:
            return self._cheapest(collective, p, nbytes)
        texts = candidates(collective, p, nbytes, self.place)
        return texts[0] if len(texts) == 1 else self._best(collective, p, nbytes, dtype, op)

    def _reproducible(self, collective: str, p: int, nbytes: int) -> str:
        for candidate in explain(collective, p, rounded(nbytes), self._machine()):
            schedule = candidate.schedule
            if schedule.workers == p and is_reproducible(collective, schedule.name, p):
                return spell(schedule.name, schedule.parameters)
        raise LookupError(f"no reproducible algorithm for {collective}")

    def _cheapest(self, collective: str, p: int, nbytes: int) -> str:
        """By rounds and bytes alone, of those that do not send everything at once."""
        if collective == "allreduce" and self.place.has_neighbours and nbytes > SHORT:
            return spell("hierarchical", {"hosts": self.place.hosts})
        texts = candidates(collective, p, nbytes, self.place._replace(shares_memory=False))
        names = list(dict.fromkeys(text.partition(":")[0] for text in texts))
        prices = [
            best_price(find(collective, name), p, rounded(nbytes), self._machine())
            for name in [name for name in names if name not in AT_ONCE] or names
        ]
        limit = AS_GOOD * min(x.time for x in prices)
        schedule = next(x.schedule for x in prices if x.time <= limit)
        return spell(schedule.name, schedule.parameters)

    def _machine(self) -> Machine:
        """Equal links that cost about what ours do."""
        if self.place.shares_memory:
            return Machine(Link(alpha=2e-6, beta=1 / 5e9), gamma=1 / 10e9)
        if self.place.is_one_host:
            return Machine(Link(alpha=8e-6, beta=1 / 4e9), gamma=1 / 10e9)
        prices = self.model.costs[kind_of(self.place)]
        messages = ("message", "message_shared", "message_shared_2^10")
        alpha = prices.get("round", 0.0) + 2 * sum(prices.get(name, 0.0) for name in messages)
        beta = prices.get("wire_in_step", 0.0) + prices.get("wire_at_once", 0.0)
        return Machine(Link(max(alpha, 1e-6), max(beta, 1e-12)), gamma=1 / 10e9)


def best_of(predictions: list[Prediction], as_good: float) -> Prediction:
    """The first of those that are as good as the best."""
    limit = as_good * min(x.seconds for x in predictions)
    return next(x for x in predictions if x.seconds <= limit)


def rounded(nbytes: int) -> int:
    """To a power of two, so that few have to be priced."""
    return 1 << max(0, nbytes - 1).bit_length()


@lru_cache(4096)
def is_reproducible(collective: str, algorithm: str, p: int) -> bool:
    """Does the algorithm fold from the left, so that its bits depend on nothing but the operands?"""
    from ..interpret.fold import folds_from_the_left  # only who asks for it pays for the import

    return folds_from_the_left(schedule_named(collective, algorithm, p))
