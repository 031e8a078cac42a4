"""Whether a lab can be made here, and if not, what to do about it."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..errors import ConfigError

CAPABILITIES = {"NET_ADMIN": 12, "SYS_CHROOT": 18, "SYS_ADMIN": 21}  # by the number of their bit
PRIVILEGES = (
    "root; in a container, start that with docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
)


def need_capabilities() -> None:
    """Namespaces and interfaces are the kernel's, and it asks for these."""
    held = _effective_capabilities()
    missing = [f"CAP_{name}" for name, bit in CAPABILITIES.items() if not held >> bit & 1]
    if missing:
        raise ConfigError(
            f"a lab makes namespaces and interfaces, and this process has no {', '.join(missing)}: "
            f"run it as {PRIVILEGES}"
        )


def need_iproute2() -> None:
    """Bridges and token buckets are made by its commands."""
    missing = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if missing:
        raise ConfigError(
            f"a lab needs {' and '.join(missing)} of iproute2 in PATH: "
            "apt-get install iproute2 (dnf install iproute iproute-tc); they are often in /usr/sbin"
        )


def _effective_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return int(value, 16)
    return 0
