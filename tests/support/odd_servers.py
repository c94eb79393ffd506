"""Servers whose machine is at fault: a clock that is stepped, a disk that fills up.

Both are the binary of an ordinary server behind a small script, which `EmbeddedServer` takes as a
kind of server: `EmbeddedServer(stepped_clock(kind, folder).kind)`.
"""

from __future__ import annotations

import shlex
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from redisson_py.testing import find_server
from tests.fixtures.redis_server import unavailable

#: Adds what a file says to the time of day; clocks that nobody can step stay as they are.
_CLOCK: Final = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *step; /* microseconds */

__attribute__((constructor)) static void open_step(void) {
    int file = open(getenv("CLOCK_STEP"), O_RDONLY);
    step = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
    if (step == MAP_FAILED) abort();
    close(file);
}

static void shift(long long microseconds, long *seconds, long *rest) {
    long long total = *seconds * 1000000LL + *rest + microseconds;
    *seconds = total / 1000000;
    *rest = total % 1000000;
}

int gettimeofday(struct timeval *restrict found, void *restrict zone) {
    int failed = syscall(SYS_gettimeofday, found, zone);
    if (!failed && step) shift(*step, &found->tv_sec, &found->tv_usec);
    return failed;
}

int clock_gettime(clockid_t clock, struct timespec *found) {
    int failed = syscall(SYS_clock_gettime, clock, found);
    if (!failed && step && clock == CLOCK_REALTIME) {
        long rest = found->tv_nsec / 1000, under = found->tv_nsec % 1000;
        shift(*step, &found->tv_sec, &rest);
        found->tv_nsec = rest * 1000 + under;
    }
    return failed;
}

time_t time(time_t *found) {
    struct timeval now;
    gettimeofday(&now, NULL);
    if (found) *found = now.tv_sec;
    return now.tv_sec;
}
"""

#: What a server writes goes to a disk of its own, in a mount namespace that needs no root.
_MOUNT: Final = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'


@final
@dataclass(frozen=True, slots=True)
class SteppedClock:
    """A kind of server whose clock of the day can be stepped.

    Attributes:
        kind: What to start.
        file: How far the clock is off, in microseconds, as the server reads it.
    """

    kind: str
    file: Path

    def step(self, seconds: float) -> None:
        """Set the clock this far ahead of the machine's (or behind it), at once."""
        with self.file.open("r+b") as file:
            file.write(struct.pack("=q", round(seconds * 1e6)))


def stepped_clock(kind: str, folder: Path) -> SteppedClock:
    """Make a kind of server, as `kind` but for its clock.

    Args:
        kind: See `find_server`.
        folder: Empty; for the program and what steps its clock.
    """
    clock = SteppedClock(str(folder / "server"), folder / "step")
    clock.file.write_bytes(bytes(8))
    library = folder / "clock.so"
    command = ["cc", "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(library)]
    try:
        subprocess.run(command, input=_CLOCK, text=True, check=True, timeout=60)
    except FileNotFoundError:
        unavailable("needs a C compiler (cc), to step a server's clock")
    settings = f"CLOCK_STEP={shlex.quote(str(clock.file))} LD_PRELOAD={shlex.quote(str(library))}"
    _write(Path(clock.kind), f'{settings} exec {_binary(kind)} "$@"')
    return clock


def small_disk(kind: str, folder: Path, size: str) -> str:
    """Make a kind of server, as `kind` but that its data has a small disk of its own.

    The disk is empty at each start.

    Args:
        kind: See `find_server`.
        folder: Empty; for the program.
        size: Of the disk, as `mount` has it: `2m`.
    """
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = [*unshare, "sh", "-c", _MOUNT, "disk", size]
    try:
        subprocess.run([*mount, str(folder), "true"], check=True, capture_output=True, timeout=60)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        unavailable(f"needs a mount namespace of its own, for a disk that is full: {error}")
    program = folder / "server"
    disk = folder / "disk"
    disk.mkdir()
    words = shlex.join([*mount, str(disk), str(find_server(kind))])
    # Its first argument is the configuration file, or the question for its version.
    _write(program, f'case "$1" in -*) exec {words} "$@" ;; esac\nexec {words} "$@" --dir {disk}')
    return str(program)


def _binary(kind: str) -> str:
    return shlex.quote(str(find_server(kind)))


def _write(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    program.chmod(0o755)
