"""A pattern: a generator of rounds that knows its parameters and which of its ranks are alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .ir import Number, Rounds

Alike = Callable[..., tuple[Number, Number]]
"""(p, r, …) -> (label, delay): ranks of one label do the same work, each ``delay`` rounds after the first of them."""


@dataclass(frozen=True)
class Pattern:
    """What one rank does, round by round; call it with (p, r) and whatever parameters it names.

    A parameter that it does not name is ignored, so that a sequence can hand the same ones to all its parts.
    ``alike`` declares symmetry: then price looks at one rank of each kind instead of all.
    ``parts`` are the patterns of a sequence; ``stage`` is what a pipeline does to a segment of ``width(p, …)`` blocks.
    """

    generate: Callable[..., Rounds]
    name: str
    summary: str = ""
    parameters: frozenset[str] = frozenset()
    alike: Alike | None = None
    parts: tuple[Pattern, ...] = ()
    stage: Pattern | None = None
    width: Callable[..., int] | None = None

    def __call__(self, p: int, r: Number, **parameters: Any) -> Rounds:
        return self.generate(p, r, **only_named(self.parameters, parameters))

    @property
    def phases(self) -> tuple[Pattern, ...]:
        """The parts of a sequence; a pattern that is not one is its own only phase."""
        return self.parts or (self,)


def pattern(alike: Alike | None = None) -> Callable[[Callable[..., Rounds]], Pattern]:
    """Make a generator function a Pattern; its docstring's first line becomes the summary."""

    def make(generate: Callable[..., Rounds]) -> Pattern:
        summary = (inspect.getdoc(generate) or "").partition("\n")[0]
        return Pattern(generate, generate.__name__, summary, named_parameters(generate), alike)

    return make


def only_named(names: frozenset[str], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the parameters that have one of these names."""
    return {name: value for name, value in parameters.items() if name in names}


def named_parameters(function: Callable[..., Any]) -> frozenset[str]:
    """What a function of p, or of p and r, takes besides."""
    return frozenset(inspect.signature(function).parameters) - {"p", "r"}


def all_alike(p: int, r: Number) -> tuple[Number, Number]:
    """Every rank does the same work, in the same rounds."""
    return 0 * r, 0 * r


def root_and_others(p: int, r: Number, root: int) -> tuple[Number, Number]:
    """The root does one thing, all others another."""
    return 1 * (r == root), 0 * r
