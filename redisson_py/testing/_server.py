"""Real servers for tests: a process of our own on the loopback interface.

Every server has its own directory with its configuration, log and data, and goes with it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self, TypedDict, Unpack, final
from urllib.parse import quote

from ._asking import ask
from ._binaries import find_server, server_version
from ._blocks import running, url_of
from ._configuration import Configuration, Part, free_port
from ._process import GuardedProcess, Probe

_LOOK_AGAIN: Final = 0.01
_STOP_PATIENCE: Final = 5.0
_TAIL: Final = 4000
_OURS: Final = frozenset(
    {"appendonly", "bind", "daemonize", "dir", "logfile", "port", "requirepass"}
    | {"tls-port", "unixsocket"}
)


class ServerOptions(TypedDict, total=False):
    """The keyword arguments of `EmbeddedServer`."""

    config: Mapping[str, str]
    unix_socket: bool
    password: str | None
    tls: tuple[Path, Path, Path] | None
    appendonly: bool
    start_timeout: float


@final
class ServerStartError(RuntimeError):
    """Raised when a server did not start. It was stopped, and the message has its log."""


@final
class EmbeddedServer:
    """A server process that a test may stop, kill, pause and restart.

    Use `embedded_server` if all you need is a URL.

    The process ends with `close`, with this Python process (even if that is killed), or when
    this object is collected. It persists nothing unless `appendonly` is set. Every `async`
    method works in a thread and has a blocking twin for code without an event loop.
    """

    def __init__(
        self,
        kind: str | None = None,
        *,
        config: Mapping[str, str] | None = None,
        unix_socket: bool = False,
        password: str | None = None,
        tls: tuple[Path, Path, Path] | None = None,
        appendonly: bool = False,
        start_timeout: float = 20.0,
    ) -> None:
        """Find the binary and make a directory; start nothing.

        Args:
            kind: See `find_server`. Default: `"auto"`
            config: More configuration, with values as in a configuration file. Default: none
            unix_socket: Whether to listen on a Unix socket as well. Default: False
            password: The password clients need. Default: none
            tls: Certificate, key and authority (PEM files); turns plain TCP off. Default: plain TCP
            appendonly: Whether to keep data on disk, so that answered writes survive a restart and
                a kill. (By default Redis may hold the log back for two seconds.) Default: False
            start_timeout: Seconds a start may take. Default: 20

        Raises:
            ServerNotFoundError: No such server; the message says what to install.
            ValueError: `config` contains a setting that has its own argument.
        """
        if reserved := _OURS & set(config or ()):
            raise ValueError(f"config must not set {', '.join(sorted(reserved))}")
        self.binary: Final = find_server(kind)
        self.password: Final = password
        self.appendonly: Final = appendonly
        self.directory: Final = Path(tempfile.mkdtemp(prefix="redisson-py-"))
        self.log: Final = self.directory / "server.log"
        self.unix_socket: Final = str(self.directory / "server.sock") if unix_socket else None
        self._tls: Final = tls
        self._configuration = Configuration(
            dict(config or {}), password, tls, self.unix_socket, appendonly
        )
        self._start_timeout: Final = start_timeout
        self._port: int | None = None  # chosen at the first start, kept from then on
        self._process: GuardedProcess | None = None
        self._paused = False
        self._give_up: Final = threading.Event()
        self._forget: Final = weakref.finalize(self, _remove, self.directory, os.getpid())

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self._forget()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def host(self) -> str:
        """The address, on the loopback interface."""
        return self._part.host

    @property
    def port(self) -> int:
        """The port; it survives restarts."""
        if self._port is None:
            raise RuntimeError("the server has not been started")
        return self._port

    @property
    def url(self) -> str:
        """The URL to connect to, password included."""
        user = "" if self.password is None else f":{quote(self.password, safe='')}@"
        return f"{'rediss' if self._tls else 'redis'}://{user}{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        return self._running_process().pid

    @property
    def version(self) -> tuple[int, int, int]:
        """Major, minor and patch version of the binary."""
        return server_version(self.binary)

    @property
    def running(self) -> bool:
        """Whether the process runs, paused or not."""
        return self._process is not None and self._process.running

    @property
    def paused(self) -> bool:
        """Whether the process is frozen (`pause`)."""
        return self._paused and self.running

    @property
    def _part(self) -> Part:
        return self._configuration.part

    @property
    def address(self) -> str:
        """Host and port, as one text."""
        return f"{self.host}:{self.port}"

    async def execute(self, *command: str | bytes | int, timeout: float = 5.0) -> Any:
        """Send one command over its own connection and return the reply.

        Args:
            command: The command and its arguments.
            timeout: Seconds it may take. Default: 5

        Returns:
            Text, a number, None, or a list of these.

        Raises:
            CommandError: The reply was an error.
            OSError: The server could not be reached.
            TimeoutError: The server did not answer in time.
        """
        return await self._execute(command, timeout=timeout)

    async def start(self) -> None:
        """Start the process and wait until it answers.

        If cancelled, no process is left.

        Raises:
            ServerStartError: The process ended, or did not answer in time; the message has its log.
            RuntimeError: The server is already running, or has been closed.
        """
        self._give_up.clear()
        try:
            await to_the_end(self.start_blocking, self._give_up.set)
        except asyncio.CancelledError:
            await to_the_end(self.kill_blocking)
            raise

    async def stop(self) -> None:
        """Stop the process, killing it if it does not end; `start` starts it again."""
        await to_the_end(self.stop_blocking)

    async def kill(self) -> None:
        """Kill the process (SIGKILL) as a crash would; `start` starts it again."""
        await to_the_end(self.kill_blocking)

    async def close(self) -> None:
        """Stop the process and delete its directory, with data and log."""
        await to_the_end(self.close_blocking)

    async def restart(self, keep_data: bool) -> None:
        """Stop the process and start it again on the same port.

        Args:
            keep_data: Whether to keep the data; otherwise the server starts empty.

        Raises:
            ValueError: `keep_data` needs `appendonly`.
        """
        if keep_data and not self.appendonly:
            raise ValueError("only a server with appendonly=True keeps its data")
        await self.stop()
        if not keep_data:
            await to_the_end(self._drop_data)
        await self.start()

    async def pause(self) -> None:
        """Freeze the process (SIGSTOP): connections stay open, and it answers nothing."""
        self._running_process().pause()
        self._paused = True

    async def resume(self) -> None:
        """Resume a frozen process (SIGCONT); it then answers everything that piled up."""
        self._running_process().resume()
        self._paused = False

    def start_blocking(self) -> None:
        """Do what `start` does, without an event loop."""
        if self.running:
            raise RuntimeError("the server is already running")
        if not self._forget.alive:
            raise RuntimeError("the server has been closed")
        deadline = time.monotonic() + self._start_timeout
        while not self._started_on(self._port or free_port(self._part), deadline):
            if time.monotonic() > deadline:
                raise self._start_error("its port stayed in use")

    def stop_blocking(self) -> None:
        """Do what `stop` does, without an event loop."""
        if self._process is not None:
            self._process.terminate(_STOP_PATIENCE)

    def kill_blocking(self) -> None:
        """Do what `kill` does, without an event loop."""
        if self._process is not None:
            self._process.kill()

    def close_blocking(self) -> None:
        """Do what `close` does, without an event loop."""
        self.stop_blocking()
        self._forget()

    def _running_process(self) -> GuardedProcess:
        if self._process is None or not self._process.running:
            raise RuntimeError("the server is not running")
        return self._process

    def _started_on(self, port: int, deadline: float) -> bool:
        """Try to start on `port`; return False if another process uses it."""
        settings = self.directory / "server.conf"
        if self._port is None or not self._part.keeps:
            self._configuration.write(settings, port)
        logged = len(self._log_text())
        mode = ["--sentinel"] if self._part.sentinel else []
        process = GuardedProcess([str(self.binary), str(settings), *mode], self.log)
        try:
            ready = self._becomes_ready(process, port, deadline)
        except BaseException:
            process.kill()
            raise
        if ready:
            self._port, self._process, self._paused = port, process, False
            return True
        process.kill()
        if "already in use" not in self._log_text()[logged:]:
            raise self._start_error("it ended")
        return False

    def _becomes_ready(self, process: GuardedProcess, port: int, deadline: float) -> bool:
        """Wait until the process answers; return False if it has ended instead."""
        probe = Probe(self.host, port, self.password, self._tls, process.pid, self._part.source)
        while process.running:
            if probe.is_ready():
                return True
            if self._give_up.wait(_LOOK_AGAIN):
                raise self._start_error("the start was cancelled")
            if time.monotonic() > deadline:
                raise self._start_error(f"it did not answer within {self._start_timeout} seconds")
        return False

    async def _execute(self, *commands: Sequence[str | bytes | int], timeout: float = 5.0) -> Any:
        login = self._part.login or (() if self.password is None else (self.password,))
        return await ask(
            self.host,
            self.port,
            *commands,
            login=login,
            tls=self._tls,
            source=self._part.source,
            timeout=timeout,
        )

    def _drop_data(self) -> None:
        shutil.rmtree(self.directory / "appendonlydir", ignore_errors=True)
        for name in ("appendonly.aof", "dump.rdb"):
            (self.directory / name).unlink(missing_ok=True)

    def _log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def _start_error(self, what: str) -> ServerStartError:
        return ServerStartError(f"{self.binary.name} did not start: {what}; {end_of_log(self)}")


def end_of_log(server: EmbeddedServer) -> str:
    """Return the end of a server's log, for errors."""
    return f"its log ends:\n{server._log_text()[-_TAIL:]}"


def login_of(server: EmbeddedServer) -> tuple[str, ...]:
    """Return what servers of its topology authenticate with; empty for the server's password."""
    return server._part.login


def part_of(
    part: Part, kind: str | None = None, **options: Unpack[ServerOptions]
) -> EmbeddedServer:
    """Make a server that is a part of a topology; nothing is started."""
    server = EmbeddedServer(kind, **options)
    server._configuration = replace(server._configuration, part=part)
    return server


def running_server(
    kind: str | None = None, **options: Unpack[ServerOptions]
) -> AbstractAsyncContextManager[EmbeddedServer]:
    """Run a server for a block, and yield its object.

    Args:
        kind: See `find_server`.
        options: See `EmbeddedServer`.
    """
    return running(lambda: EmbeddedServer(kind, **options))


def embedded_server(
    kind: str | None = None, **options: Unpack[ServerOptions]
) -> AbstractAsyncContextManager[str]:
    """Run a server for a block, and yield its URL.

    Args:
        kind: See `find_server`.
        options: See `EmbeddedServer`.
    """
    return url_of(running_server(kind, **options))


async def to_the_end(work: Callable[[], None], hurry: Callable[[], None] | None = None) -> None:
    """Run blocking `work` in a thread; a cancellation waits for its end before it goes on.

    Args:
        work: Must not be left half done.
        hurry: Called if cancelled, to make `work` end soon.
    """
    job = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(job)
    except asyncio.CancelledError:
        if hurry is not None:
            hurry()
        await asyncio.wait([job])
        if not job.cancelled():
            job.exception()  # the cancellation goes first, but the error was seen
        raise


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a fork of ours that is leaving
        shutil.rmtree(directory, ignore_errors=True)
