"""What nemeses need of this machine, and whether it has it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping
from tempfile import TemporaryDirectory

from tests.jepsen.field import Need
from tests.jepsen.history import say
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.nemeses.network import enclosing

_PATIENCE = 30.0


@functools.cache
def lacking() -> Mapping[Need, str]:
    """Return what nemeses need and this machine lacks, with the reason."""
    found: dict[Need, str] = {}
    with TemporaryDirectory() as folder:
        tries: dict[Need, tuple[str, ...]] = {
            "own network": ("true",),
            "disk": ("sh", "-c", 'mount -t tmpfs jepsen "$0" && umount "$0"', folder),
        }
        for need, command in tries.items():
            if why := _refusal(*enclosing({need}), *command):
                found[need] = why
    if shutil.which("cc") is None:
        found["clock shim"] = "no compiler: cc"
    return found


def _refusal(*command: str) -> str:
    """Return why a command fails; empty if it does not."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return ""
    return done.stderr.strip() or f"{command[0]} ended with {done.returncode}"


class LackingError(Exception):
    """A machine of CI lacks something: there nothing may be left out."""


def to_do_without() -> Mapping[Need, str]:
    """Return what this machine lacks, and print which nemeses are left out.

    Raises:
        LackingError: It lacks something and is one of CI.
    """
    missing = lacking()
    rows = [
        f"left out, as '{need}' is missing here ({why}): "
        + ", ".join(name for name, nemesis in NEMESES.items() if need in nemesis.needs)
        for need, why in missing.items()
    ]
    if missing and os.environ.get("CI"):
        raise LackingError("\n".join(rows))
    for row in rows:
        say(row)
    return missing
