"""What nemeses do to servers and workers really happens, and is over when they have ended."""

from __future__ import annotations

import asyncio
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from redisson_py.testing import EmbeddedServer
from redisson_py.testing._asking import packed
from tests.jepsen.field import PASSWORD, USER
from tests.jepsen.fields import field_for, refusal, strike, strike_until, strikes, striking
from tests.jepsen.history import read_history
from tests.jepsen.nemeses.clocks import Clock
from tests.jepsen.plan import Plan
from tests.jepsen.run import record
from tests.support.node_info import calls, info
from tests.support.waiting import until, until_async

#: Seconds of a lease where a strike, about as long, has much to do on a machine that may be busy.
LONG_LEASE = 2.0


async def run_id(server: EmbeddedServer) -> str:
    return (await info(server, "server"))["run_id"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [("crash", 0), ("restart", 0), ("crash-everysec", 1), ("crash-always", 1)],
)
async def test_another_process_has_what_it_should(tmp_path: Path, name: str, kept: int) -> None:
    async with field_for(tmp_path, name) as field:
        (server,) = field.servers
        before = await run_id(server)
        await server.execute("SET", "a", "b")
        await strike(field, name)
        assert await run_id(server) != before
        assert await server.execute("DBSIZE") == kept


async def test_a_frozen_server_stands_still(tmp_path: Path) -> None:
    async with field_for(tmp_path, "freeze") as field:
        (server,) = field.servers
        state = Path(f"/proc/{server.pid}/stat")
        async with striking(field, "freeze"):
            await until(lambda: state.read_text().split()[2] == "T")
        assert await server.execute("PING") == "PONG"


async def test_a_busy_server_says_so(tmp_path: Path) -> None:
    async with field_for(tmp_path, "busy") as field:
        (server,) = field.servers

        async def is_busy() -> bool:
            return (await refusal(server, "SET", "a", "b")).startswith("BUSY")

        await strike_until(field, "busy", is_busy)
        assert await refusal(server, "SET", "a", "b") == ""


async def test_commands_are_paused(tmp_path: Path) -> None:
    async with field_for(tmp_path) as field:
        await strike(field, "client-pause")
        assert await calls(field.servers[0], "client|pause") == 1
        assert await refusal(field.servers[0], "SET", "a", "b") == ""


async def test_scripts_and_data_are_flushed(tmp_path: Path) -> None:
    async with field_for(tmp_path) as field:
        (server,) = field.servers
        sha = await server.execute("SCRIPT", "LOAD", "return 1")
        await server.execute("SET", "a", "b")
        await strike(field, "script-flush")
        assert await server.execute("SCRIPT", "EXISTS", sha) == [0]
        assert await server.execute("DBSIZE") == 1
        await strike(field, "flushall")
        assert await server.execute("DBSIZE") == 0


@pytest.mark.parametrize(
    ("name", "first"), [("kill-pubsub", ("SUBSCRIBE", "a")), ("kill-connections", ("PING",))]
)
async def test_a_connection_is_killed(tmp_path: Path, name: str, first: tuple[str, ...]) -> None:
    async with field_for(tmp_path) as field:
        (server,) = field.servers
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(packed(first))
        assert await reader.readline()
        await strike(field, name)
        await reader.read()
        assert reader.at_eof()
        writer.close()


async def test_a_full_server_refuses_writes(tmp_path: Path) -> None:
    async with field_for(tmp_path) as field:
        (server,) = field.servers
        field.lease_time = LONG_LEASE

        async def is_full() -> bool:
            return (await refusal(server, "SET", "a", "b")).startswith("OOM")

        await strike_until(field, "memory-full", is_full)
        assert await refusal(server, "SET", "a", "b") == ""
        assert await server.execute("KEYS", "*") == ["a"]


async def test_a_cache_evicts_what_others_have(tmp_path: Path) -> None:
    async with field_for(tmp_path) as field:
        (server,) = field.servers
        field.lease_time = LONG_LEASE
        await server.execute("SET", "a", "b")
        await strike(field, "eviction")
        assert int((await info(server, "stats"))["evicted_keys"]) > 0
        assert await server.execute("CONFIG", "GET", "maxmemory") == ["maxmemory", "0"]
        assert await server.execute("KEYS", "jepsen*") == []


async def test_permissions_are_revoked_and_restored(tmp_path: Path) -> None:
    async with field_for(tmp_path, "acl") as field:
        (server,) = field.servers

        async def user() -> str:
            rows = await server.execute("ACL", "LIST")
            return str(next(row for row in rows if row.startswith(f"user {USER} ")))

        before = await user()

        async def differs() -> bool:
            return await user() != before

        for number in range(5):
            await strike_until(field, "acl", differs, 100 * number)
            assert await user() == before
        revoked = {op.value for op in strikes(tmp_path)}
        assert len(revoked) > 1
        assert await refusal(server, "AUTH", USER, PASSWORD) == ""


@pytest.mark.parametrize("name", ["clock-step", "clock-hour"])
async def test_a_clock_is_wrong_for_a_while(tmp_path: Path, name: str) -> None:
    async with field_for(tmp_path, name) as field:
        (server,) = field.servers

        async def error(of: float = 0.0) -> float:
            """Return how many seconds the server's clock is off what is expected of it."""
            before = time.time()
            seconds, microseconds = await server.execute("TIME")
            shown = int(seconds) + int(microseconds) / 1e6 - of
            return min(0.0, shown - before) + max(0.0, shown - time.time())

        async def is_wrong() -> bool:
            return abs(await error()) > 0.1

        async def is_right(of: float = 0.0) -> bool:
            return abs(await error(of)) < 0.001

        await strike_until(field, name, is_wrong)
        op = strikes(tmp_path)[-1]
        await until_async(is_right)
        Clock(server).set(op.value)
        await until_async(partial(is_right, op.value))
        # So much that it shows at once: 500 ppm are half a second in a quarter of an hour.
        Clock(server).set(ppm=10**9)
        await until_async(is_wrong)


async def test_a_clock_drifts(tmp_path: Path) -> None:
    async with field_for(tmp_path, "clock-drift") as field:
        await strike(field, "clock-drift")
        assert [abs(op.value) for op in strikes(tmp_path)] == [500]


async def test_a_paused_process_stands_still(tmp_path: Path) -> None:
    async with field_for(tmp_path, "pause") as field:
        process = await asyncio.create_subprocess_exec("sleep", "30")
        field.workers[0]._process = process
        state = Path(f"/proc/{process.pid}/stat")
        try:
            async with striking(field, "pause"):
                await until(lambda: state.read_text().split()[2] == "T")
            await until(lambda: state.read_text().split()[2] == "S")
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()


async def test_workers_are_killed_blocked_and_cancelled(tmp_path: Path) -> None:
    names = ("kill", "block", "cancel")
    await record(Plan("mutex", names, "single", seconds=4.0, seed=1), tmp_path)
    history = read_history(tmp_path)
    assert {op.rid for op in history.of("nemesis")} == {*names}
    lives = {op.rid.partition("/")[0] for op in history.of("acquire")}
    # One life of each of four workers, and what came after a SIGKILL.
    assert len(lives) > 4
    assert history.of("blocked")
    assert history.of("cancelled")
