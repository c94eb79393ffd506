"""Nemeses that need a network or mounts of their own: a small disk, dropped packets, partitions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from redisson_py.testing import EmbeddedServer
from redisson_py.testing._asking import ask
from tests.fixtures.redis_server import unavailable
from tests.jepsen.fields import field_for, refusal, strike, strike_until, strikes, work
from tests.jepsen.machine import lacking
from tests.jepsen.nemeses.network import enclosed, enclosing
from tests.support.waiting import until, until_async


def test_a_disk_is_full(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Out here, another pytest runs this test in the enclosure."""
    if enclosed():
        asyncio.run(fill_a_disk(tmp_path))
        return
    if reason := lacking().get("disk"):
        unavailable(reason)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", request.node.nodeid]
    done = subprocess.run(
        [*enclosing({"disk"}), *command], capture_output=True, text=True, timeout=150, check=False
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


async def fill_a_disk(folder: Path) -> None:
    async with field_for(folder, "disk-full") as field:
        (server,) = field.servers

        async def is_full() -> bool:
            # More than may be left of the page that has the end of the log.
            return (await refusal(server, "SET", "a", "b" * 10_000)).startswith("MISCONF")

        await strike_until(field, "disk-full", is_full)
        assert await refusal(server, "SET", "a", "b") == ""
        await server.kill()
        await server.start()
        assert await server.execute("GET", "a") == "b"


@pytest.mark.own_network
@pytest.mark.parametrize("name", ["drop", "drop-up", "drop-down"])
async def test_packets_are_dropped(tmp_path: Path, name: str) -> None:
    async with field_for(tmp_path, name) as field:
        (server,) = field.servers
        source = field.workers[0].spec.source

        async def is_unreachable() -> bool:
            # Others are not concerned.
            return not await reaches(server, source) and await server.execute("PING") == "PONG"

        await until_async(lambda: reaches(server, source))
        await strike_until(field, name, is_unreachable)
        await until_async(lambda: reaches(server, source))


async def reaches(server: EmbeddedServer, source: str) -> bool:
    """Return whether a server answers what comes from an address."""
    try:
        await ask(server.host, server.port, ("PING",), source=source, timeout=0.1)
    except (OSError, TimeoutError):
        return False
    return True


@pytest.mark.own_network
@pytest.mark.parametrize("topology", ["sentinel", "cluster"])
async def test_a_master_is_cut_off_and_replaced(tmp_path: Path, topology: str) -> None:
    names = ("partition", "replica-partition", "cut")
    async with field_for(tmp_path, *names, topology=topology) as field, work(field) as client:
        await until(lambda: client.statistics().acquires > 0)
        before = {server.port for server in await field.masters()}
        await strike(field, "partition")
        assert {server.port for server in await field.masters()} != before
        await strike(field, "replica-partition")
        assert not any(op.err for op in strikes(tmp_path))
        done = client.statistics().acquires
        await until(lambda: client.statistics().acquires > done)
