"""A private network, in which servers can be cut off from each other. Linux only.

A user and a network namespace (`unshare -Urn`) need no root where the system allows them. Every
server has its own address on the loopback interface there, and routing rules cut them off.
Programs outside the namespace cannot reach them, so the test and its clients must run inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextvars import ContextVar
from itertools import combinations
from pathlib import Path
from typing import Any, Final, final

from ._process import GuardedProcess

NETWORK_VARIABLE: Final = "REDISSON_PY_OWN_NETWORK"
#: The address from which we query servers; never cut off.
OBSERVER: Final = "127.0.0.9"
#: The source address of connections that are bound to no address.
UNBOUND: Final = "127.0.0.1"
_FIRST_HOST: Final = 10
#: Rules must come before the table of local addresses, which is why that one is moved.
_SET_UP: Final = (
    "ip link set lo up && ip rule add pref 100 lookup local && ip rule del pref 0 && "
    f'{NETWORK_VARIABLE}=1 exec "$@"'
)
_UNSHARE: Final = ("unshare", "-Urn", "sh", "-c", _SET_UP, "own-network")
_SETUP_TIME: Final = 10.0
_source: ContextVar[str | None] = ContextVar("source", default=None)


@final
class NetworkNotFoundError(RuntimeError):
    """Raised where no private network can be made; the message says what is missing."""


def in_own_network() -> bool:
    """Whether this process runs in a network made by `run_in_own_network`."""
    return os.environ.get(NETWORK_VARIABLE) == "1"


def host_of(index: int) -> str:
    """Return the address of the server with this number."""
    return f"127.0.0.{_FIRST_HOST + index}"


async def run_in_own_network(*command: str, timeout: float = 60.0) -> str:
    """Run a program in a private network and return its output.

    It ends with this Python process at the latest.

    Args:
        command: The program and its arguments, such as `sys.executable, "-m", "pytest", …`.
        timeout: Seconds it may take.

    Raises:
        NetworkNotFoundError: This system allows no such network.
        subprocess.CalledProcessError: It failed; `output` has its output.
        subprocess.TimeoutExpired: It took longer, and was killed.
    """
    return await asyncio.to_thread(run_in_own_network_blocking, *command, timeout=timeout)


def run_in_own_network_blocking(*command: str, timeout: float = 60.0) -> str:
    """Do what `run_in_own_network` does, without an event loop."""
    if missing := _obstacle():
        raise NetworkNotFoundError(
            "a private network needs Linux, the programs unshare and ip, and permission to "
            f"make user namespaces: {missing}"
        )
    with tempfile.TemporaryDirectory(prefix="redisson-py-") as directory:
        log = Path(directory) / "output"
        process = GuardedProcess([*_UNSHARE, *command], log)
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        output = log.read_text(errors="replace")
    if status is None:
        raise subprocess.TimeoutExpired(command, timeout, output)
    if status:
        raise subprocess.CalledProcessError(status, command, output)
    return output


@functools.cache
def _obstacle() -> str:
    """Return why no private network can be made; empty if one can."""
    try:
        done = subprocess.run(
            [*_UNSHARE, "true"], capture_output=True, text=True, timeout=_SETUP_TIME, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip() or f"status {done.returncode}" if done.returncode else ""


@contextlib.contextmanager
def connecting_from(address: str) -> Generator[None]:
    """Open connections from this address inside the block.

    Tasks started in the block keep the address for as long as they run, so a client first used in
    the block stays there. Any address of 127.0.0.0/8 will do.
    """
    loop: Any = asyncio.get_running_loop()
    if not hasattr(loop, "redisson_py_connects"):
        connect = loop.redisson_py_connects = loop.create_connection

        async def create_connection(*args: Any, **options: Any) -> Any:
            source = _source.get()
            if source is not None:
                options.setdefault("local_addr", (source, 0))
            return await connect(*args, **options)

        loop.create_connection = create_connection
    token = _source.set(address)
    try:
        yield
    finally:
        _source.reset(token)


@final
class Cuts:
    """What is cut in this network."""

    def __init__(self) -> None:
        """Begin with a whole network."""
        self._rules: list[str] = []

    async def cut(self, groups: Sequence[Iterable[str]], nodes: Iterable[str]) -> None:
        """Cut every group off from every other, and what is bound to no address from all nodes."""
        pairs = {
            (one, other)
            for first, second in combinations([tuple(group) for group in groups], 2)
            for one in first
            for other in second
        }
        if not any(UNBOUND in group for group in groups):
            # A server that cannot connect from its own address tries without.
            pairs |= {(UNBOUND, node) for node in nodes}
        rules = [
            f"pref 10 from {a} to {b} blackhole"
            for one, other in sorted(pairs)
            for a, b in ((one, other), (other, one))
        ]
        await _ip(f"rule add {rule}" for rule in rules)
        self._rules += rules

    async def heal(self) -> None:
        """Make the network whole again."""
        rules, self._rules = self._rules, []
        await _ip(f"rule del {rule}" for rule in rules)


async def _ip(commands: Iterable[str]) -> None:
    text = "".join(f"{each}\n" for each in commands)
    command = ["ip", "-batch", "-"]
    await asyncio.to_thread(
        subprocess.run, command, input=text, text=True, capture_output=True, check=True
    )
