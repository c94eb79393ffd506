"""Real servers of etcd for tests, which can be stopped, paused and killed, and `etcdctl`."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from redisson_py.testing._configuration import free_port
from redisson_py.testing._process import GuardedProcess
from tests.fixtures.redis_server import unavailable
from tests.support.certificates import Certificates
from tests.support.waiting import until_async

_START_TIME: Final = 60.0
PASSWORD: Final = "s3cret-pässword"
ESCAPED: Final = "s3cret-p%C3%A4ssword"


@functools.cache
def binary(name: str) -> str:
    """Return the path of a program of etcd; without it the test is skipped, in CI it fails."""
    found = shutil.which(name)
    if found is None:
        unavailable(f"needs {name}: Debian's etcd-server and etcd-client have it")
    return found


class EtcdServer:
    """A member of its own, with its data in a temporary folder."""

    def __init__(self, certificates: Certificates | None = None, flags: Sequence[str] = ()) -> None:
        self._certificates = certificates
        self._flags = tuple(flags)
        self._folder = Path(tempfile.mkdtemp(prefix="redisson-py-etcd-"))
        self._process: GuardedProcess | None = None
        self.port = free_port()
        self._peer_port = free_port()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{'etcds' if self._certificates else 'etcd'}://{self.address}"

    def start(self) -> None:
        """Start it, with the data that it has, and wait until it has a leader."""
        secure, flags = "http", list(self._flags)
        if self._certificates is not None:
            secure = "https"
            flags += ["--cert-file", str(self._certificates.certificate)]
            flags += ["--key-file", str(self._certificates.key)]
        peer = f"http://127.0.0.1:{self._peer_port}"
        self._process = GuardedProcess(
            [
                binary("etcd"),
                *("--name", "one", "--data-dir", str(self._folder / "data")),
                *("--listen-client-urls", f"{secure}://{self.address}"),
                *("--advertise-client-urls", f"{secure}://{self.address}"),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                *("--initial-cluster", f"one={peer}"),
                *("--heartbeat-interval", "50", "--election-timeout", "250"),
                *flags,
            ],
            self._folder / "log",
        )
        end = time.monotonic() + _START_TIME
        while not self._is_ready():
            if not self._process.running or time.monotonic() > end:
                raise RuntimeError(f"etcd did not start: {self.log()[-2000:]}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it now (SIGKILL); its data stays."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Stop it (SIGSTOP)."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.resume()

    def close(self) -> None:
        """End it, and remove its data."""
        if self._process is not None:
            self._process.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def command(self, *args: str) -> list[str]:
        """Return a command line of etcdctl for this server."""
        where = f"{'https' if self._certificates else 'http'}://{self.address}"
        flags = (
            [] if self._certificates is None else ["--cacert", str(self._certificates.authority)]
        )
        return [binary("etcdctl"), "--endpoints", where, *flags, *args]

    def ctl(self, *args: str) -> str:
        """Run etcdctl, and return what it printed."""
        # By itself it gives a busy machine two seconds to connect, and five to answer.
        command = self.command("--dial-timeout", "30s", "--command-timeout", "60s", *args)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=90, env=environment()
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def keys(self, prefix: str = "") -> list[str]:
        """Return the keys with a prefix, of all if it is empty."""
        found = self.ctl("get", prefix, "--prefix", "--keys-only", "--write-out", "simple")
        return [row for row in found.splitlines() if row]

    async def until_keys(self, prefix: str, count: int = 0) -> None:
        """Return when so many keys have a prefix; the event loop is not blocked meanwhile."""

        async def are_there() -> bool:
            return len(await asyncio.to_thread(self.keys, prefix)) == count

        await until_async(are_there, _START_TIME)

    def _is_ready(self) -> bool:
        try:
            done = subprocess.run(
                self.command("--dial-timeout", "200ms", "--command-timeout", "500ms", "get", "x"),
                capture_output=True,
                timeout=5,
                env=environment(),
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def environment() -> dict[str, str]:
    """Return the environment for etcdctl: version 3 of the API."""
    return os.environ | {"ETCDCTL_API": "3"}


def add_users(server: EtcdServer) -> None:
    """Ask for passwords from now on: root's, app's, which may use locks, and reader's."""
    for user in ("root", "app", "reader"):
        server.ctl("user", "add", f"{user}:{PASSWORD}")
    for role in ("locks", "looks"):
        server.ctl("role", "add", role)
    for user, role in (("root", "root"), ("app", "locks"), ("reader", "looks")):
        server.ctl("user", "grant-role", user, role)
    for prefix in ("ours/", "others/", "redisson_py/"):
        server.ctl("role", "grant-permission", "locks", "--prefix=true", "readwrite", prefix)
    server.ctl("role", "grant-permission", "looks", "--prefix=true", "read", "ours/")
    server.ctl("auth", "enable")


class GuardedServer(EtcdServer):
    """A member with the users that `add_users` makes."""

    def start(self) -> None:
        super().start()
        add_users(self)

    @property
    def url(self) -> str:
        return self.url_of("app")

    def url_of(self, user: str) -> str:
        return f"etcd://{user}:{ESCAPED}@{self.address}"

    def command(self, *args: str) -> list[str]:
        return [*super().command(*args), "--user", f"root:{PASSWORD}"]

    def allow(self, prefix: str) -> None:
        self.ctl("role", "grant-permission", "locks", "--prefix=true", "readwrite", prefix)

    def forbid(self, prefix: str) -> None:
        self.ctl("role", "revoke-permission", "locks", "--prefix=true", prefix)


class Etcdctl:
    """`etcdctl lock` or `etcdctl elect`, with what it prints."""

    def __init__(self, server: EtcdServer, *words: str) -> None:
        self._command = server.command(*words)

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, env=environment()
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.communicate()

    async def read_row(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(_START_TIME):
            return (await self._process.stdout.readline()).decode().rstrip("\n")

    async def leave(self) -> None:
        """End it as Ctrl-C does: it gives back what it has."""
        self._process.terminate()
        async with asyncio.timeout(_START_TIME):
            await self._process.communicate()
