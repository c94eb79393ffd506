"""`redisson-py top` shows who holds and waits, and does not load the servers that it shows."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py._time import now
from redisson_py.testing import EmbeddedServer
from tests.cli.holding import KINDS, WAITED_FOR, documents, one_of_each
from tests.cli.processes import is_stopped
from tests.cli.terminals import on_terminal, run
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until

Looks = Callable[[Callable[[dict[str, Any]], object]], Any]


@asynccontextmanager
async def looks(*arguments: str) -> AsyncIterator[Looks]:
    """Run `top --json`; what is given returns the first look from now on that is as wanted."""
    command = [sys.executable, "-m", "redisson_py", "top", "--json", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=subprocess.PIPE, limit=10_000_000
    )

    async def first(wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            while True:
                row = await process.stdout.readline()
                assert row, "top has ended"
                look: dict[str, Any] = json.loads(row)
                if wanted(look):
                    return look

    try:
        yield first
    finally:
        if process.returncode is None:
            process.terminate()
        # What is written until it ends must not block it.
        await process.communicate()
    assert process.returncode == 128 + signal.SIGTERM


def rows(look: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in look["rows"]}


async def test_once_shows_every_kind(server_url: str, clients: ClientFactory) -> None:
    async with one_of_each(clients(client_name="checkout"), clients(client_name="waiter")):
        look = await documents("top", "--once", "--url", server_url)
        text = (await run("top", "--once", "--url", server_url)).stdout
    assert {name: row["kind"] for name, row in rows(look).items()} == KINDS
    assert (look["searched"], look["away"], look["left_out"]) == (True, {}, False)
    assert [rows(look)[name]["waiters_total"] for name in WAITED_FOR] == [1] * len(WAITED_FOR)
    assert rows(look)["lock"]["handoffs_per_second"] == 0
    assert f"{len(KINDS)} held, {len(WAITED_FOR)} queued" in text.splitlines()[0]
    assert text.splitlines()[1].split()[:4] == ["NAME", "KIND", "STATE", "HOLDER"]
    assert len(text.splitlines()) == 2 + len(KINDS)


async def test_nothing_is_held(server_url: str) -> None:
    result = await run("top", "--once", "--url", server_url)
    assert (result.exit_code, result.stdout.split(" ", 1)[1]) == (0, "0 held, 0 queued\n")


async def test_holders_are_seen_to_come_to_stay_and_to_go(
    server_url: str, clients: ClientFactory
) -> None:
    client = clients()
    async with looks("--interval", "0.1", "--url", server_url) as look:
        async with client.get_lock("long"):
            first = await look(lambda it: "long" in rows(it))
            async with client.get_lock("short"):
                both = await look(lambda it: len(rows(it)) == 2)
                later = await look(lambda it: rows(it)["short"]["seen_held_for"] > 0.3)
            freed = await look(lambda it: rows(it)["short"]["seen_held_for"] is None)
    assert list(rows(both)) == list(rows(later)) == ["long", "short"]
    assert list(rows(freed)) == ["long", "short"]
    assert rows(freed)["short"]["holders"] == []
    held = rows(later)["long"]["seen_held_for"]
    assert held > rows(first)["long"]["seen_held_for"]
    assert held > rows(later)["short"]["seen_held_for"]


async def test_new_holders_are_counted_and_so_are_releases(
    server_url: str, clients: ClientFactory
) -> None:
    one, other = clients(), clients()

    async def hand_over(first: asyncio.Event) -> None:
        while True:
            for client in (one, other):
                async with client.get_lock("k"):
                    first.set()
                    # Long enough to be seen; how many are seen is not what is tested.
                    await asyncio.sleep(0.1)

    began = asyncio.Event()
    task = asyncio.create_task(hand_over(began))
    await began.wait()
    async with looks("--interval", "0.1", "--url", server_url) as look:
        counted = await look(
            lambda it: (
                "k" in rows(it)
                and rows(it)["k"]["handoffs_per_second"] > 0
                and it["releases_per_second"]
            )
        )
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    # At most one new holder with each look.
    assert rows(counted)["k"]["handoffs_per_second"] <= 11


async def test_it_sends_at_most_the_commands_that_it_promises(
    server_url: str, redis: Redis, one_server: None
) -> None:
    pipeline: Any = redis.pipeline(transaction=False)
    for number in range(4000):
        pipeline.hset(f"user:{number}", "name", "x")
        pipeline.pexpire(f"user:{number}", 60_000)
    await pipeline.execute()
    rate = 300

    async def executed() -> int:
        return int((await redis.info("stats"))["total_commands_processed"])

    async with looks("--interval", "0.1", "--rate", str(rate), "--url", server_url) as look:
        # It has connected, and it is in the middle of its search.
        await look(lambda it: True)
        began, before = now(), await executed()
        await asyncio.sleep(3)
        after = await executed()
        seconds = now() - began
    # A batch of each of the two halves may just be due; a few are pings of the connection.
    assert after - before <= rate * seconds + 2 * 64 + 10
    assert after > before


async def test_a_server_that_goes_away_is_shown_and_comes_back(
    own_server: EmbeddedServer, clients: ClientFactory
) -> None:
    await own_server.execute("HSET", "k", "12345678-1234-4321-8765-1234567890ab:47", 1)
    async with looks("--interval", "0.1", "--url", own_server.url) as look:
        await look(lambda it: "k" in rows(it) and not it["away"])
        await own_server.pause()
        away = await look(lambda it: it["away"] and rows(it)["k"]["stale"])
        await own_server.resume()
        back = await look(lambda it: not it["away"])
        assert not rows(back)["k"]["stale"]
        await own_server.kill()
        gone = await look(lambda it: it["away"])
        await own_server.restart(keep_data=False)
        empty = await look(lambda it: not it["away"] and not rows(it)["k"]["holders"])
    assert list(away["away"]) == list(gone["away"]) == [f"127.0.0.1:{own_server.port}"]
    assert rows(empty)["k"]["seen_held_for"] is None


async def test_it_begins_while_the_server_is_away(own_server: EmbeddedServer) -> None:
    await own_server.kill()
    once = await run("top", "--once", "--url", own_server.url)
    assert once.exit_code == 69
    async with looks("--interval", "0.1", "--url", own_server.url) as look:
        away = await look(lambda it: True)
        await own_server.restart(keep_data=False)
        await look(lambda it: it["searched"] and not it["away"])
    assert away["away"]


async def test_what_is_beyond_the_limit_is_said(server_url: str, redis: Redis) -> None:
    for number in range(9):
        await redis.hset(f"k:{number}", "12345678-1234-4321-8765-1234567890ab:47", "1")
        await redis.pexpire(f"k:{number}", 60_000)
    look = await documents("top", "--once", "--limit", "4", "--url", server_url)
    text = (await run("top", "--once", "--limit", "4", "--url", server_url)).stdout
    assert (len(look["rows"]), look["left_out"]) == (4, True)
    assert "only the first 4 found are watched" in text


@pytest.mark.parametrize("ending", ["q", "Ctrl-C", "SIGTERM", "SIGHUP"])
async def test_the_terminal_is_as_before_whatever_ends_it(
    ending: str, server_url: str, clients: ClientFactory
) -> None:
    async with clients(client_name="checkout").get_lock("orders"):
        with on_terminal("top", "--interval", "0.1", "--url", server_url) as terminal:
            await terminal.shows("orders")
            assert not terminal.is_as_before
            match ending:
                case "q" | "Ctrl-C":
                    terminal.type({"q": "q", "Ctrl-C": "\x03"}[ending])
                case _:
                    terminal.process.send_signal(signal.Signals[ending])
            status = await terminal.ends()
            assert status == {"q": 0, "Ctrl-C": 130, "SIGTERM": 143, "SIGHUP": 129}[ending]
            assert terminal.is_as_before
    assert b"checkout on " in terminal.shown
    # The other screen was entered and left, and the cursor is visible again.
    assert terminal.shown.count(b"\x1b[?1049h") == terminal.shown.count(b"\x1b[?1049l") == 1
    assert terminal.shown.rstrip().endswith(b"\x1b[?1049l")
    assert terminal.shown.rfind(b"\x1b[?25h") > terminal.shown.rfind(b"\x1b[?25l")
    assert b"Traceback" not in terminal.shown


async def test_a_stopped_top_leaves_the_terminal_to_the_shell(
    server_url: str, clients: ClientFactory
) -> None:
    async with clients().get_lock("orders"):
        with on_terminal("top", "--interval", "0.1", "--url", server_url) as terminal:
            await terminal.shows("orders")
            terminal.type("\x1a")
            await until(
                lambda: (
                    (terminal.read(), is_stopped(terminal.process.pid))[1] and terminal.is_as_before
                ),
                30,
            )
            assert terminal.read().endswith(b"\x1b[?25h\x1b[?1049l")
            shown = len(terminal.frames)
            terminal.process.send_signal(signal.SIGCONT)
            await until(lambda: len(terminal.frames) > shown + 1, 30)
            assert not terminal.is_as_before
            terminal.type("q")
            assert await terminal.ends() == 0
            assert terminal.is_as_before


async def test_a_dumb_terminal_gets_plain_rows(server_url: str, clients: ClientFactory) -> None:
    async with clients().get_lock("orders"):
        with on_terminal("top", "--interval", "0.1", "--url", server_url, TERM="dumb") as terminal:
            await terminal.shows("orders")
            assert b"\x1b" not in terminal.shown
            terminal.type("\x03")
            assert await terminal.ends() == 130


@pytest.mark.parametrize(("width", "height"), [(20, 4), (40, 8), (80, 24), (200, 60)])
async def test_it_fits_any_terminal(
    width: int, height: int, server_url: str, clients: ClientFactory
) -> None:
    names = [f"a rather long name of a lock, number {number}" for number in range(12)]
    client = clients()
    leases = [await client.get_lock(name).acquire() for name in names]
    with on_terminal(
        "top", "--interval", "0.1", "--url", server_url, size=(width, height)
    ) as terminal:
        await terminal.shows("12 held")
        terminal.type("q")
        assert await terminal.ends() == 0
        # The last one is followed by what ends the screen.
        frames = terminal.frames[:-1]
    for lease in leases:
        await lease.release()
    assert frames
    assert max(len(frame) for frame in frames) <= height
    assert max(len(row) for frame in frames for row in frame) <= width
    assert b"Traceback" not in terminal.shown


async def test_keys_and_signals_end_it_while_the_server_is_silent(
    own_server: EmbeddedServer,
) -> None:
    with on_terminal("top", "--interval", "0.1", "--url", own_server.url) as terminal:
        await terminal.shows("nothing is held")
        await own_server.pause()
        terminal.type("q")
        assert await terminal.ends() == 0
        assert terminal.is_as_before
    await own_server.resume()


async def test_a_missing_permission_ends_it_and_the_terminal_is_as_before(
    own_server: EmbeddedServer,
) -> None:
    rules = ("on", ">pw", "~*", "&*", "+@all", "-scan")
    await own_server.execute("ACL", "SETUSER", "some", *rules)
    url = own_server.url.replace("redis://", "redis://some:pw@")
    with on_terminal("top", "--url", url) as terminal:
        assert await terminal.ends() == 69
        assert terminal.is_as_before
    assert b"scan" in terminal.shown.lower()
    assert b"Traceback" not in terminal.shown


async def test_a_pipe_that_closes_ends_it(server_url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "redisson_py", "top", "--interval", "0.1", "--url", server_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    await process.stdout.readline()
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]
    async with asyncio.timeout(30):
        said = await process.stderr.read()
        await process.wait()
    assert b"Traceback" not in said
