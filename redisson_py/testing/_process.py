"""A child process that cannot outlive its parent, and a check whether it is ready.

On Linux the kernel could end the child (PR_SET_PDEATHSIG), but it does so when the *thread*
that forked ends, and setting it takes a `preexec_fn`, which is unsafe once there are threads.
We use a guard instead, a shell that reads from a pipe only we can write to: the pipe ends when
our process ends, however it ends, and the guard then kills the child. It works on every Unix.
A child forked without exec inherits the pipe and delays the guard until it has ended as well.

The child and its guard get sessions of their own, so the terminal's Ctrl-C reaches neither.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from ._asking import packed, tls_context

_GUARD: Final = 'read -r _ || kill -KILL "$1"'
_ANSWER_TIME: Final = 1.0
_PROCESS_ID: Final = re.compile(rb"process_id:(\d+)\r\n")


@final
class GuardedProcess:
    """One run of a program, which ends with this Python process at the latest."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Start `command`, with its output appended to the file `log`."""
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            guard = subprocess.Popen(
                ["/bin/sh", "-c", _GUARD, "guard", str(child.pid)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except BaseException:
            child.kill()
            child.wait()
            raise
        self._child = child
        self._end = weakref.finalize(self, _end, child, guard, os.getpid())

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet."""
        return self._child.poll() is None

    def wait(self, timeout: float) -> int | None:
        """Return the exit status when the process has ended; None after `timeout` seconds."""
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self, patience: float) -> None:
        """Ask the process to end (SIGTERM), and kill it if it has not after `patience` seconds."""
        if self.running:
            # A stopped process would not see the SIGTERM before it goes on.
            self._child.send_signal(signal.SIGCONT)
            self._child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(patience)
        self.kill()

    def kill(self) -> None:
        """End the process now (SIGKILL); when this returns, it is gone."""
        self._end()

    def pause(self) -> None:
        """Stop the process (SIGSTOP); when this returns, it has stopped (where we can know)."""
        self._child.send_signal(signal.SIGSTOP)
        if hasattr(os, "waitid"):
            # WNOWAIT leaves the exit status for Popen, should the process have ended meanwhile.
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a stopped process go on (SIGCONT)."""
        self._child.send_signal(signal.SIGCONT)


def _end(child: subprocess.Popen[bytes], guard: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of ours is leaving; the processes are not its own
    child.kill()
    guard.kill()  # before the child is reaped and its pid may belong to somebody else
    child.wait()
    if guard.stdin is not None:
        guard.stdin.close()
    guard.wait()


@final
@dataclass(frozen=True, slots=True)
class Probe:
    """How to ask a server whether it is ready.

    Attributes:
        host: Where it listens.
        port: Its port.
        password: What to authenticate with, if anything.
        tls: Certificate, key and authority; None for a plain connection.
        pid: The process that must be the one to answer; None for any.
        source: The address to connect from; None for any.
    """

    host: str
    port: int
    password: str | None = None
    tls: tuple[Path, Path, Path] | None = None
    pid: int | None = None
    source: str | None = None

    def is_ready(self) -> bool:
        """Whether the server answers a PING, and is the one we mean.

        An error is an answer too (NOAUTH: it wants a password that we do not know), except LOADING.
        """
        try:
            source = None if self.source is None else (self.source, 0)
            where = (self.host, self.port)
            with socket.create_connection(where, _ANSWER_TIME, source) as plain:
                return self._asks_well(self._wrapped(plain))
        except OSError:
            return False

    def _asks_well(self, link: socket.socket) -> bool:
        with link:
            if self.password is not None:
                _ask(link, "AUTH", self.password)
            answer = _ask(link, "PING")
            if not answer.startswith(b"+PONG"):
                return answer.startswith(b"-") and not answer.startswith(b"-LOADING")
            # Our own server may be about to fail because somebody else has the port.
            answered = _PROCESS_ID.search(_ask(link, "INFO", "server"))
            return self.pid is None or answered is None or int(answered[1]) == self.pid

    def _wrapped(self, plain: socket.socket) -> socket.socket:
        if self.tls is None:
            return plain
        return tls_context(self.tls).wrap_socket(plain)


def _ask(link: socket.socket, *words: str) -> bytes:
    """Send a command and return the reply: a line, or a bulk string with its header."""
    link.sendall(packed(words))
    reply = b""
    while not _is_whole(reply):
        received = link.recv(65536)
        if not received:
            break
        reply += received
    return reply


def _is_whole(reply: bytes) -> bool:
    head, found, body = reply.partition(b"\r\n")
    if not found:
        return False
    return not head.startswith(b"$") or len(body) >= int(head[1:]) + 2
