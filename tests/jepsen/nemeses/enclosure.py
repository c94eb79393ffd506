"""A network and mounts of the tool's own: packets are dropped in it, and a disk is small in it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from redisson_py.testing._network import NETWORK_VARIABLE
from tests.jepsen.field import Need

#: The variable that is set inside.
VARIABLE = "JEPSEN_ENCLOSED"
#: Bytes of a disk that a nemesis can fill.
_SMALL = 128 << 20

# The table of local addresses is moved, so that rules can come before it.
_SET_UP = (
    "ip link set lo up && ip rule add pref 100 lookup local && ip rule del pref 0 &&"
    f' {VARIABLE}=1 {NETWORK_VARIABLE}=1 exec "$@"'
)


def enclosing(needs: Iterable[Need]) -> list[str]:
    """Return what the command of the tool must begin with, if nemeses need these; else nothing."""
    if not {"own network", "disk"} & set(needs) or enclosed():
        return []
    return ["unshare", "-Urmn", "sh", "-c", _SET_UP, "enclosure"]


def enclosed() -> bool:
    """Whether this process has a network and mounts of its own."""
    return os.environ.get(VARIABLE) == "1"


@contextmanager
def small_disk(folder: Path) -> Generator[None]:
    """Put a disk of its own under a folder, which must be empty."""
    if not enclosed():
        raise RuntimeError("a small disk can only be mounted inside the enclosure")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "jepsen", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()
