"""What a process is told about its job, and by whom. Nothing else in unisono reads os.environ.

Each value comes from the first that has it: an argument, a UNISONO_* variable, the variables of the launcher. Launchers
are looked for in the order of LAUNCHERS; a process that nobody launched is a job of one rank. UNISONO_LAUNCHER names
the only one to look at, and `none` looks at nobody.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from .errors import ConfigError
from .foreign import LAUNCHERS, Launcher
from .foreign import LOOPBACK as LOOPBACK
from .foreign import Address as Address
from .foreign import Store as Store
from .injection import Injection, parse_injections
from .values import nearest, seconds
from .values import whole as _whole

DEADLINE = 300.0
START_TIMEOUT = 60.0
SHORTEST_KEY = 16
MOST_STREAMS = 16
_NEW_KEY = "python -c 'import secrets; print(secrets.token_hex(32))'"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One rank's place in its job, and how it may talk to the others."""

    rank: int = 0
    size: int = 1
    local_rank: int | None = None  # as the launcher counts; None if it did not say
    rendezvous: Address | None = None  # where rank 0 can be reached
    bind: str | None = None  # where rank 0 listens, if that is another address (0.0.0.0, behind NAT)
    listener: int | None = None  # a descriptor, already listening there, that rank 0 inherited
    open: bool = False  # somebody listens there already: who is refused there has lost rank 0
    store: Store | None = None  # by which rank 0 tells the others the key and the address that are not set
    key: str = field(default="", repr=False)
    job: str = "unisono"
    host: str = field(default_factory=socket.gethostname)
    deadline: float = DEADLINE
    start_timeout: float = START_TIMEOUT
    links: str = "auto"
    check: str = "usual"  # strict: ranks compare their calls before they make them
    ports: range | None = None
    streams: int | None = None  # TCP connections between two ranks; None: as the way between them suggests
    trace: str | None = None
    inject: tuple[Injection, ...] = ()  # failures to rehearse, of all ranks
    dump: str | None = None  # where to write what this rank did when a call fails
    model: str | None = None  # a file with a model of the machine, or "off"; None: what the cache has
    verbose: bool = False
    verdicts: str | None = None  # a pipe on which a rank tells its launcher that it is not to blame
    launcher: str = "none"

    def meeting_point(self) -> Address:
        """Where the ranks meet; an error that says what to set where that is not known."""
        if self.rendezvous is None:
            raise ConfigError(
                f"rank {self.rank} of {self.size} was started by {self.launcher}, which does not say where rank 0 is: "
                "set UNISONO_RENDEZVOUS=host:port, an address and a free port of rank 0's host, the same on every rank"
            )
        return self.rendezvous


def read_settings(
    *,
    rank: int | None = None,
    size: int | None = None,
    local_rank: int | None = None,
    rendezvous: str | Address | None = None,
    bind: str | None = None,
    key: str | None = None,
    job: str | None = None,
    deadline: float | None = None,
    links: str | None = None,
    check: str | None = None,
    ports: str | None = None,
    streams: int | None = None,
    trace: str | None = None,
    inject: str | None = None,
    dump: str | None = None,
    model: str | None = None,
    launcher: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """What the arguments say; where they say nothing, what the environment says."""
    arguments = {
        "rank": rank, "size": size, "local_rank": local_rank, "rendezvous": rendezvous, "bind": bind, "key": key,
        "job": job, "deadline": deadline, "links": links, "check": check, "ports": ports, "streams": streams,
        "trace": trace, "inject": inject, "dump": dump, "model": model, "launcher": launcher,
    }  # fmt: skip
    told = _Told(arguments, os.environ if environ is None else environ)
    return told.settings()


def read_settings_of_group(*, rank: int, size: int, deadline: float, name: str, is_part: bool) -> Settings:
    """Of a process group of torch's, which says itself who is in it; where they meet is found out later.

    Failures to rehearse, traces and dumps are of all ranks, not of a part of them.
    """
    environ = {key: text for key, text in os.environ.items() if key not in _PLACE - {"UNISONO_VERDICTS"}}
    if is_part:
        for key in ("UNISONO_INJECT", "UNISONO_TRACE", "UNISONO_DUMP", "UNISONO_VERBOSE", "UNISONO_VERDICTS"):
            environ.pop(key, None)
    settings = read_settings(
        rank=rank, size=size, rendezvous="127.0.0.1:1", deadline=deadline, launcher="unisono", environ=environ
    )
    return replace(settings, rendezvous=None, job=f"{settings.job}/{name}")


def read_settings_of_meeting() -> Settings | None:
    """What `unisono run`, or whoever set our variables, has said to a process that torchrun has said nothing to; only
    for a meeting of the ranks, which writes and rehearses nothing."""
    if os.environ.get("MASTER_ADDR") or not os.environ.get("UNISONO_RANK"):
        return None
    return replace(read_settings(), trace=None, inject=(), dump=None, verbose=False, verdicts=None)


_PLACE = {f"UNISONO_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "RENDEZVOUS", "LISTENER", "VERDICTS")}
_ALIASES = {"intelmpi": "mpich", "slurm": "srun", "mpirun": "openmpi"}


class _Told:
    """What one process was told, argument by argument and variable by variable."""

    def __init__(self, arguments: Mapping[str, object], environ: Mapping[str, str]) -> None:
        self.arguments = arguments
        self.environ = environ

    def find(self, name: str) -> tuple[str, str] | None:
        """A value with the name under which it was given. An empty variable is one that is not set."""
        if (value := self.arguments.get(name)) is not None:
            return name, str(value)
        variable = f"UNISONO_{name.upper()}"
        return (variable, self.environ[variable]) if self.environ.get(variable) else None

    def settings(self) -> Settings:
        wanted = self.choice("launcher", ("none", "unisono", *(x.name for x in LAUNCHERS)), "")
        if wanted == "none":
            self.environ = {name: text for name, text in self.environ.items() if name not in _PLACE}
        launchers = self.launchers(wanted)
        rank, size, local_rank, source = self.place(launchers, wanted)
        deadline = self.number("deadline")
        by_launcher = size > 1 and bool(launchers) and source == launchers[0].name
        store = launchers[0].store(self.environ) if by_launcher else None
        return Settings(
            rank=rank,
            size=size,
            local_rank=local_rank,
            rendezvous=self.meeting_point(rank, size, [] if store else launchers, source),
            bind=self.text("bind"),
            listener=self.whole("listener", low=0),
            store=store,
            key=self.key(),
            job=self.text("job") or (launchers[0].job_id(self.environ) if launchers else "unisono"),
            host=self.text("host") or socket.gethostname(),
            deadline=DEADLINE if deadline is None else deadline,
            start_timeout=START_TIMEOUT if deadline is None else deadline,
            links=self.choice("links", ("auto", "shm", "staged", "tcp"), "auto"),
            check=self.choice("check", ("usual", "strict"), "usual"),
            ports=self.ports(),
            streams=self.whole("streams", low=1, high=MOST_STREAMS),
            trace=self.text("trace"),
            inject=self.injections(size),
            dump=dump_directory(self.text("dump")),
            model=self.text("model"),
            verbose=self.choice("verbose", ("0", "1"), "0") == "1",
            verdicts=self.text("verdicts"),
            launcher=source,
        )

    def launchers(self, wanted: str) -> list[Launcher]:
        """Those whose variables are here, the most credible first."""
        if wanted in ("none", "unisono"):
            return []
        found = [x for x in LAUNCHERS if wanted in ("", x.name) and x.started(self.environ)]
        if wanted and not found:
            x = next(x for x in LAUNCHERS if x.name == wanted)
            raise ConfigError(
                f"UNISONO_LAUNCHER={wanted}, but its variables {', '.join((x.rank, x.size, *x.needs))} are not set"
            )
        return found

    def place(self, launchers: list[Launcher], wanted: str) -> tuple[int, int, int | None, str]:
        """Rank, size, local rank, and who said so."""
        rank, size, local_rank = self.whole("rank", low=0), self.whole("size", low=1), self.whole("local_rank", low=0)
        if rank is not None and size is None:
            raise ConfigError(f"{self.name_of('rank')} is set but UNISONO_SIZE is not: set it to the number of ranks")
        if rank is None and (not launchers or wanted == "unisono"):
            if wanted == "unisono" or (size or 1) > 1:
                raise ConfigError("UNISONO_RANK is not set: set UNISONO_RANK and UNISONO_SIZE on every rank")
            return 0, 1, local_rank, "none"
        source = "unisono"
        rank_name, size_name = self.name_of("rank"), self.name_of("size")
        if rank is None or size is None:
            x = launchers[0]
            source = x.name
            if rank is None:
                rank_name, rank = x.rank, _whole(x.rank, self.environ[x.rank], low=0)
            if size is None:
                size_name, size = x.size, _whole(x.size, self.environ[x.size], low=1)
            if local_rank is None and (text := self.environ.get(x.local_rank)):
                local_rank = _whole(x.local_rank, text, low=0)
        if rank >= size:
            raise ConfigError(f"{rank_name}={rank} with {size_name}={size}: valid ranks are 0 to {size - 1}")
        return rank, size, local_rank, source

    def meeting_point(self, rank: int, size: int, launchers: list[Launcher], source: str) -> Address | None:
        if found := self.find("rendezvous"):
            return parse_address(*found)
        if size == 1:
            return None
        if source == "unisono":
            raise ConfigError(
                f"rank {rank} of {size} does not know where rank 0 is: set UNISONO_RENDEZVOUS=host:port, "
                "the same on every rank"
            )
        for x in launchers:  # one launcher inside another: who knows the same place may know the address
            same = self.environ.get(x.rank) == str(rank) and self.environ.get(x.size) == str(size)
            if same and (address := x.meeting_point(self.environ)):
                return address
        return None

    def key(self) -> str:
        name, key = self.find("key") or ("", "")
        if key and len(key) < SHORTEST_KEY:  # the value stays secret
            raise ConfigError(f"{name} has {len(key)} characters, valid is {SHORTEST_KEY} or more; try {_NEW_KEY}")
        return key

    def ports(self) -> range | None:
        if not (found := self.find("ports")):
            return None
        name, text = found
        first, dash, last = text.partition("-")
        valid = first.strip().isdecimal() and (not dash or last.strip().isdecimal())
        ports = range(int(first), int(last if dash else first) + 1) if valid else range(0)
        if not ports or ports[0] < 1 or ports[-1] > 65535:
            raise ConfigError(f"{name}={text!r}: valid is a range of ports such as 30000-30099, within 1-65535")
        return ports

    def injections(self, size: int) -> tuple[Injection, ...]:
        found = self.find("inject")
        return parse_injections(*found, size) if found else ()

    def choice(self, name: str, valid: tuple[str, ...], default: str) -> str:
        if not (found := self.find(name)):
            return default
        label, text = found
        value = _ALIASES.get(text.lower(), text.lower())
        if value not in valid:
            raise ConfigError(f"{label}={text!r}: valid is one of {', '.join(valid)}{nearest(value, valid)}")
        return value

    def number(self, name: str) -> float | None:
        found = self.find(name)
        return seconds(*found) if found else None

    def whole(self, name: str, *, low: int, high: int | None = None) -> int | None:
        found = self.find(name)
        return _whole(*found, low=low, high=high) if found else None

    def text(self, name: str) -> str | None:
        found = self.find(name)
        return found[1] if found else None

    def name_of(self, name: str) -> str:
        found = self.find(name)
        return found[0] if found else f"UNISONO_{name.upper()}"


def dump_directory(value: str | None) -> str | None:
    """What UNISONO_DUMP says: a directory, or that there shall be no dumps."""
    return None if not value or value.lower() == "off" else value


def cache_directory() -> Path:
    """Where to keep what can be made again: of this user, and of unisono only."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~/.cache"))) / "unisono"


def peers_directory() -> Path | None:
    """Where the libraries are installed that `unisono bench` compares us with, as UNISONO_PEERS says."""
    return Path(value) if (value := os.environ.get("UNISONO_PEERS")) else None


def allocator_is_chosen() -> bool:
    """Has whoever started this process said how glibc allocates memory, or that something else does?"""
    named = ("LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_")
    return any(os.environ.get(name) for name in named)


def inherited() -> dict[str, str]:
    """All that this process was given, for the processes that it starts."""
    return dict(os.environ)


def become(environment: Mapping[str, str]) -> None:
    """Go on as a process that was given this; for who has just been forked."""
    os.environ.clear()
    os.environ.update(environment)


def parse_address(label: str, text: str) -> Address:
    """host:port, also [::1]:port; port 0 is only for who picks the port, never for who is told it."""
    host, _, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"{label}={text!r}: valid is host:port, with a port from 1 to 65535, such as 10.0.0.1:29400")
    return Address(host, int(port))
