"""Models in the user's cache: one file for each cluster that was measured."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from stat import S_ISREG
from typing import Any

from ..errors import ConfigError
from .model import Model

FORMAT = 2
LONGEST_FILE = 1 << 18


def machine_facts() -> list[Any]:
    """What this host is, as far as prices depend on it."""
    return [_processor(), os.cpu_count() or 1, os.uname().release]


def fingerprint(version: str, machines: list[list[Any]], hosts: list[str]) -> str:
    """Of a cluster: what its hosts are, how many there are, and who measured. The names count where there are several,
    because they have rates."""
    names = sorted(set(hosts))
    facts = [FORMAT, version, sorted({json.dumps(machine) for machine in machines}), names if len(names) > 1 else 1]
    return blake2b(json.dumps(facts).encode(), digest_size=8).hexdigest()


def file_of(directory: Path, name: str) -> Path:
    """Where a cluster's model is."""
    return directory / "models" / f"{name}.json"


def has_any(directory: Path) -> bool:
    """Was anything ever measured?"""
    try:
        return any((directory / "models").iterdir())
    except OSError:
        return False


def load(path: Path) -> Model:
    """A ConfigError says what is wrong with a file, which may be anything."""
    try:
        text = _read(path)
    except OSError as error:
        raise ConfigError(f"the model {path} cannot be read: {error.strerror or error}") from error
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"the model {path} is no JSON; make it again with unisono tune, or remove it") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ConfigError(f"the model {path} is of another kind; make it again with unisono tune, or remove it")
    try:
        return Model.read(facts | {"origin": str(path)})
    except ConfigError as error:
        raise ConfigError(
            f"the model {path} is broken: {error}; make it again with unisono tune, or remove it"
        ) from None


def save(path: Path, model: Model, about: dict[str, Any]) -> None:
    """All of it or nothing, also if several do so at a time."""
    text = json.dumps({"format": FORMAT, "about": about, **model.facts()}, indent=1)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise ConfigError(f"the model cannot be written to {path}: {error.strerror or error}") from error


def _read(path: Path) -> str:
    """Of a file that is one: to open a pipe would wait for who writes to it."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is not a file")
        text = file.read(LONGEST_FILE + 1)
    if len(text) > LONGEST_FILE:
        raise OSError(f"it has more than {LONGEST_FILE} bytes")
    return text.decode(errors="replace")


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read(8192).splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), os.uname().machine)
