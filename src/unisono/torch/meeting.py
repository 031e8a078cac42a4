"""A communicator of the ranks of a process group. They meet through the store that torch has given them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from ..comm.addresses import is_loopback
from ..comm.communicator import Communicator
from ..comm.conversation import Talk, pause
from ..comm.introduction import introduce_through, reachable
from ..comm.sites import Sites
from ..comm.start import Regroup, enter
from ..config import LOOPBACK, Settings, read_settings_of_group
from ..errors import ConfigError, DeadlineExceeded
from .errands import waiting_in

if TYPE_CHECKING:
    from .group import Group

WORD = "unisono"
LOOK = 0.25  # seconds between two looks whether those who are waited for can come
SOON, PATIENCE = 0.001, 0.1  # seconds between two looks at the store, and the part of those that have passed
SOMEWHERE = "192.0.2.1"  # reserved for documentation: the way there is the way out


Trouble = Callable[[], BaseException | None]
"""Why those who are waited for cannot come."""

ASK = 1.0  # seconds until those are asked after who do not come, and again


def meet(options: Any, parent: Group | None) -> tuple[Communicator, Settings, str]:
    """For torch's options of a group: a communicator, what it was made of, and an address of this host for the others.

    The parent is the group of all ranks, if this one is a part of it.
    """
    settings = read_settings_of_group(
        rank=options.group_rank,
        size=options.group_size,
        deadline=options.timeout.total_seconds(),
        name=options.group_id,
        is_part=parent is not None,
    )
    members = list(options.global_ranks_in_group)
    if parent is None:
        return _meet(options, settings, None, members, lambda: None)
    what, line = f"new_group of ranks {', '.join(map(str, members))}", _line()
    with waiting_in(what, line, f"{options.group_id} {members}", members):
        return _meet(options, settings, parent, members, _trouble(parent, members))


def _trouble(parent: Group, members: list[int]) -> Trouble:
    asked, failed_before = monotonic(), parent.failed_groups()

    def trouble() -> BaseException | None:
        nonlocal asked
        if monotonic() > asked + ASK:
            asked = monotonic()
            parent.ask_after(members)
        return parent.why_gone(members, failed_before)

    return trouble


def _line() -> str:
    """That made the group, in the program."""
    sites = Sites()
    return sites.name(sites.caller(depth=2))


def _meet(
    options: Any, settings: Settings, parent: Group | None, members: list[int], trouble: Trouble
) -> tuple[Communicator, Settings, str]:
    store, host = options.store, LOOPBACK
    if settings.size > 1:
        host = _host(store)
        settings = introduce_through(lambda word, seconds: _tell(store, word, seconds, trouble), host, settings)
    if parent is None:
        return enter(settings, allow_pickle=False), settings, host
    regroup, name = parent.comm._regroup, f"torch-{options.group_id}"
    assert isinstance(regroup, Regroup), "it was entered"
    settings = replace(settings, open=True)  # before the word was told
    return regroup.join(settings, name, members, allow_pickle=False, witnesses=[_watch(trouble)]), settings, host


def _watch(trouble: Trouble) -> Talk[None]:
    while True:
        yield pause(LOOK)
        if error := trouble():
            raise error


def _tell(store: Any, word: bytes | None, seconds: float, trouble: Trouble) -> bytes:
    if word is not None:
        store.set(WORD, word)
        return word
    began = looked = monotonic()
    while True:
        failure: RuntimeError | None = None
        try:
            if store.check([WORD]):
                found: bytes = store.get(WORD)
                return found
        except RuntimeError as error:
            failure = error
        now = monotonic()
        if failure or now > looked + LOOK:
            looked = now
            if gone := trouble():
                raise gone from None
        if now > began + seconds or isinstance(failure, dist.DistNetworkError):
            why = f" ({str(failure).splitlines()[0]})" if failure else ""
            raise DeadlineExceeded(
                f"torch's store had no word of rank 0 of this group in {now - began:.3g} s; have all its ranks called "
                f"init_process_group or new_group?{why}"
            ) from failure
        # Not in the store, which would write a warning when it has waited in vain.
        sleep(min(LOOK, max(SOON, (now - began) * PATIENCE)))


def _host(store: Any) -> str:
    """An address of this host that the others reach, if it has to be rank 0: the one on the way to the store."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host = getattr(store, "host", "")
    with suppress(OSError):
        family, _, _, _, address = socket.getaddrinfo(host or SOMEWHERE, 9, type=socket.SOCK_DGRAM)[0]
        if is_loopback(str(address[0])) and (host == "localhost" or is_loopback(host)):
            return LOOPBACK
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(address)  # of datagrams: nothing is sent, only a route is chosen
            own = str(probe.getsockname()[0])
            if not is_loopback(own):
                return own
    try:
        return reachable("")
    except ConfigError:  # there is no network, so that all are here
        return LOOPBACK
