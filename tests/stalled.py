"""Run a command while its processes stop at random: `python -m tests.stalled make test`.

A busy machine stops any process at any time: a test, a server, a worker. Here that happens on
purpose, again and again: one process of the command is stopped for a moment (SIGSTOP) and goes on
(SIGCONT). A test that fails only then rests on the speed of the machine. Needs Linux.

A process that a test has stopped stays stopped: it is not chosen, and a test that stops it during
one of our stalls finds it stopped afterwards as well.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

#: prctl(2): processes whose parent has ended become our children, so we still find them.
_PR_SET_CHILD_SUBREAPER = 36
#: Names in /proc/PID/status of the signals that a stopped process has not seen yet.
_PENDING = ("SigPnd", "ShdPnd")
_SIGSTOP_BIT = 1 << (signal.SIGSTOP - 1)
_STOPPED_OR_ENDED = ("T", "t", "Z", "X")


class Command:
    """A command and all processes that it starts, also those that outlive their parents."""

    def __init__(self, words: list[str]) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._pid = os.posix_spawnp(words[0], words, os.environ)
        self._code = 0
        self._ended = threading.Event()
        threading.Thread(target=self._collect, daemon=True).start()

    def ends_within(self, seconds: float) -> bool:
        """Wait so long; return whether the command has ended."""
        return self._ended.wait(seconds)

    @property
    def code(self) -> int:
        """Its exit code, once it has ended."""
        return self._code

    def end(self) -> None:
        """End it, as Ctrl-C would."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGINT)
        self._ended.wait()

    def running(self) -> list[int]:
        """Return its processes, without those that somebody has stopped.

        Those of another terminal are left alone as well: their shell would see that they stop, and
        take it for a Ctrl-Z.
        """
        children: dict[str, list[int]] = {}
        ours = _terminal(os.getpid())
        for pid in _all_processes():
            facts = _facts(pid)
            goes_on = facts.get("State", "X")[0] not in _STOPPED_OR_ENDED
            if goes_on and _terminal(pid) in ("0", ours):
                children.setdefault(facts["PPid"], []).append(pid)
        found = children.get(str(os.getpid()), [])
        for pid in found:
            found += children.get(str(pid), ())
        return found

    def _collect(self) -> None:
        """Collect what has ended, also orphans, until the command itself has."""
        while True:
            pid, status = os.wait()
            if pid == self._pid:
                self._code = os.waitstatus_to_exitcode(status)
                self._ended.set()
                return


def stall(pid: int, seconds: float) -> None:
    """Stop a process for a moment."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        try:
            # On a busy machine it may take long until it runs, sees the signal and stops.
            while _pending(facts := _facts(pid)):
                if facts["State"][0] in _STOPPED_OR_ENDED:
                    # Somebody else was faster.
                    return
                time.sleep(0.001)
            time.sleep(seconds)
        finally:
            # Also after a Ctrl-C, which a stopped process never sees. A SIGSTOP that waits is
            # somebody else's: a stopped process sees it when it goes on.
            if not _pending(_facts(pid)):
                os.kill(pid, signal.SIGCONT)


def _pending(facts: dict[str, str]) -> bool:
    """Whether a process has not seen a SIGSTOP yet that somebody sent."""
    return any(int(facts.get(name, "0"), 16) & _SIGSTOP_BIT for name in _PENDING)


def _all_processes() -> Iterator[int]:
    return (int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal())


def _terminal(pid: int) -> str:
    """Return the number of a process's terminal, "0" if it has none, nothing if it is gone."""
    with suppress(OSError):
        return (
            Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(") ")[2].split()[4]
        )
    return ""


def _facts(pid: int) -> dict[str, str]:
    """Return what the kernel says of a process; nothing if it is gone."""
    with suppress(OSError):
        rows = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
        return {name: value.strip() for name, _, value in (row.partition(":") for row in rows)}
    return {}


def main() -> int:
    """Run the command; return its exit code."""
    arguments = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    choices = random.Random(arguments.seed)
    stalls = 0
    try:
        command = Command(arguments.command)
    except OSError as error:
        sys.exit(f"{arguments.command[0]}: {error.strerror}")
    try:
        while not command.ends_within(choices.expovariate(1 / arguments.pause)):
            if running := command.running():
                stall(choices.choice(running), arguments.seconds)
                stalls += 1
    except KeyboardInterrupt:
        command.end()
    sys.stdout.write(
        f"{stalls} stalls of {arguments.seconds:g} s, about {arguments.pause:g} s between them,"
        f" --seed {arguments.seed}: {' '.join(arguments.command)} ended with {command.code}\n"
    )
    return command.code


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.stalled",
        description="Run a command while its processes stop at random.",
    )
    parser.add_argument("--seconds", type=float, default=0.3, help="of each stall (default: 0.3)")
    parser.add_argument(
        "--pause", type=float, default=0.7, help="mean seconds between stalls (default: 0.7)"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("command", help="the command to run")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments")
    arguments = parser.parse_args()
    if not sys.platform.startswith("linux"):
        parser.error("needs Linux, whose /proc lists processes")
    if not (arguments.seconds > 0 and arguments.pause > 0):
        parser.error("--seconds and --pause must be greater than 0")
    arguments.command = [arguments.command, *arguments.rest]
    return arguments


if __name__ == "__main__":
    sys.exit(main())
