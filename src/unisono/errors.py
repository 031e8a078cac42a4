"""Everything that unisono raises on purpose."""

from __future__ import annotations


class UnisonoError(Exception):
    """Base of every error that unisono raises."""

    ranks: tuple[int, ...] = ()
    """The ranks that it is about, where these are known."""

    reason: str = ""
    noticed_by: int | None = None
    """The rank that saw it first, where all raise what one has seen."""

    second_hand: bool = False
    """Another rank has given up before, and knows more."""

    round: str = ""
    """``round 2 of 6``: where in a call."""

    sequence: int | None = None
    """The call in which it began, if that was an earlier one."""

    message: int | None = None
    """Which message from that rank to this one it is about, if it is about one that the two alone exchange."""

    epoch: int | None = None
    """Which of the failures of a communicator all ranks have agreed to call so."""


class ConfigError(UnisonoError):
    """An argument, option or environment variable makes no sense."""


class ScheduleError(UnisonoError):
    """A schedule does not do what its collective promises."""


# What goes wrong while ranks communicate is a RuntimeError, too: programs that use torch.distributed catch that.


class MismatchError(UnisonoError, RuntimeError):
    """Ranks called different operations, or the same one with different arguments."""


class PeerLost(UnisonoError, RuntimeError):
    """A peer died or can no longer be reached."""


class DeadlineExceeded(UnisonoError, RuntimeError):
    """An operation did not complete in the time that it was given."""
