"""Clients that close, and event loops that shut down, while something is held."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquiredEvent,
    ClientClosedError,
    LeaseLostError,
    Listener,
    LostEvent,
    Redisson,
    ReleasedEvent,
)
from redisson_py.testing import FaultProxy
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support import repository
from tests.support.cluster_look import master_of, url_of
from tests.support.kinds import DISTINCT, KINDS, Stage, member_names
from tests.support.streams import answered
from tests.support.waiting import until, until_async

SINGLE = [name for name in DISTINCT if KINDS[name].servers == 1]


@pytest.mark.parametrize("name", SINGLE)
async def test_what_is_held_is_released_although_the_connection_has_broken(
    clients: ClientFactory, proxy: ProxyFactory, name: str
) -> None:
    """The client learns of that after it has sent its releases, or just before."""
    client, kind, link = clients(), KINDS[name], await proxy()
    for notices in (False, True):
        behind = clients(link.url)
        await kind.one(behind).acquire()
        link.cut()
        if notices:
            await until(lambda behind=behind: not behind._router.stream_for(b"k").ready)  # type: ignore[misc]
        await behind.aclose()
        async with kind.one(client).hold(timeout=0):
            pass


@pytest.mark.parametrize("on_lost", ["raise", "cancel"])
@pytest.mark.parametrize("name", SINGLE)
async def test_a_block_whose_client_closes_raises_lease_lost(
    clients: ClientFactory, name: str, on_lost: str
) -> None:
    client, entered = clients(on_lost=on_lost), asyncio.Event()
    go_on = asyncio.Event()
    leases: list[Any] = []

    async def work() -> None:
        async with KINDS[name].one(client) as lease:
            leases.append(lease)
            entered.set()
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                return

    working = asyncio.create_task(work())
    await entered.wait()
    await client.aclose()
    assert leases[0].lost
    assert leases[0].remaining == 0.0
    async with KINDS[name].one(clients()):
        go_on.set()
        with pytest.raises(LeaseLostError) as caught:
            await working
    assert caught.value.reason == "forced"


# The end of each acquisition is reported once, also while its lease is still referenced.


class Ends(Listener):
    def __init__(self) -> None:
        self.acquired_owners: list[str] = []
        self.ended: list[str] = []

    def acquired(self, event: AcquiredEvent, /) -> None:
        self.acquired_owners.append(event.owner)

    def released(self, event: ReleasedEvent, /) -> None:
        self.ended.append("released")

    def lost(self, event: LostEvent, /) -> None:
        self.ended.append(event.reason)


async def test_an_abandoned_lease_that_was_lost_before_is_reported_once(
    clients: ClientFactory,
) -> None:
    ends = Ends()
    client = clients(lease_time=3, listener=ends)
    lock = client.get_lock("k")

    async def leave_both() -> None:
        await lock.acquire()
        inner = await lock.acquire(lease_time=0.5)
        await inner.wait_lost()

    await asyncio.create_task(leave_both())
    gc.collect()
    await until(lambda: not client._watchdog.holds)
    assert len(ends.acquired_owners) == 2
    assert ends.ended == ["ended", "abandoned"]
    assert dict(client.statistics().losses_by_reason)["abandoned"] == 1


@pytest.mark.parametrize("how", ["close", "lose"])
async def test_a_lease_that_became_garbage_is_reported_when_its_hold_ends(
    clients: ClientFactory, how: str
) -> None:
    ends = Ends()
    client = clients(lease_time=3, listener=ends)
    kept: list[object] = []

    async def leave() -> None:
        kept.append(await client.get_lock("k").acquire())

    await asyncio.create_task(leave())
    (hold,) = client._watchdog.holds
    await until(lambda: hold._forgotten is not None)
    kept.clear()
    gc.collect()
    if how == "close":
        await client.aclose()
    else:
        client._watchdog.lose(hold, "expired")
    assert len(ends.ended) == len(ends.acquired_owners) == 1


CLIENT_NAME = "closing"


async def loop_iterations(count: int = 20) -> None:
    """Let everything go on that waits for nothing."""
    for _ in range(count):
        await asyncio.sleep(0)


async def is_connected(redis: Redis) -> bool:
    """Whether the server still has the client's connection."""
    rows: list[dict[str, Any]] = await redis.client_list()
    return any(row["name"] == CLIENT_NAME for row in rows)


async def gone(redis: Redis) -> bool:
    return not await is_connected(redis)


async def test_second_close_waits_for_the_first(
    clients: ClientFactory, proxy: ProxyFactory, redis: Redis
) -> None:
    link = await proxy()
    client = clients(link.url, client_name=CLIENT_NAME)
    await client.get_lock("k").acquire()
    link.hold()
    closing = [asyncio.create_task(client.aclose()) for _ in range(3)]
    await link.wait_until(lambda link: link.held > 0)
    await loop_iterations()
    # The release has no answer yet.
    assert [task.done() for task in closing] == [False] * 3
    link.release_held()
    async with asyncio.timeout(30):
        await asyncio.gather(*closing)
    assert not await redis.exists("k")
    await until_async(lambda: gone(redis))
    await client.aclose()


async def closed_twice(
    clients: ClientFactory, link: FaultProxy
) -> tuple[Redisson, asyncio.Task[None], asyncio.Task[None]]:
    """Return a client that holds the lock `k`, and two closes that wait for its release."""
    client = clients(link.url, client_name=CLIENT_NAME)
    await client.get_lock("k").acquire()
    link.hold()
    first, second = (asyncio.create_task(client.aclose()) for _ in range(2))
    await link.wait_until(lambda link: link.held > 0)
    await loop_iterations()
    assert not second.done()
    return client, first, second


async def test_cancelled_close_does_not_leave_the_second_hanging(
    clients: ClientFactory, link: FaultProxy, redis: Redis
) -> None:
    client, first, second = await closed_twice(clients, link)
    first.cancel()
    link.release_held()
    async with asyncio.timeout(30):
        await second
        await asyncio.gather(first, return_exceptions=True)
    await until_async(lambda: gone(redis))
    with pytest.raises(ClientClosedError):
        await answered(client)
    # If Redis got no release, the lease ends.
    await redis.delete("k")


async def test_close_inside_a_block_of_the_client(clients: ClientFactory, redis: Redis) -> None:
    """`async with client` closes at its end what another task closes already."""
    client: Redisson = clients(client_name=CLIENT_NAME)
    async with client:
        await client.get_lock("k").acquire()
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
    assert not await redis.exists("k")
    await closing
    await until_async(lambda: gone(redis))


#: What Python or asyncio print on stderr after an unclean end. Warnings of asyncio's debug mode
#: about slow callbacks are not among them: the machine may be busy.
UNCLEAN = ("Traceback", "Warning", "Exception ignored", "was destroyed", "never retrieved")

some_kinds = pytest.mark.parametrize(
    "stage",
    [
        "lock",
        *(
            pytest.param(kind, marks=pytest.mark.more)
            for kind in ("multi_lock_of_three", "red_lock", "semaphore")
        ),
    ],
    indirect=True,
)
"""One for each class that keeps holds; a program takes as long as its cleanup."""


class Program:
    """The program of a test, and its output so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.rows: list[str] = []

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for row in self.process.stdout:
            self.rows.append(row.decode().strip())

    def said(self, text: str) -> bool:
        return any(row.startswith(text) for row in self.rows)


@asynccontextmanager
async def running(stage: Stage, how: str) -> AsyncIterator[Program]:
    """Run the program; in the end it must have ended by itself, and cleanly."""
    kind = next(name for name, kind in KINDS.items() if kind is stage.kind)
    command = ["-X", "dev", "-W", "error", "-m", "tests.lifecycle.shutting_down", how, kind]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        url_of(await master_of(stage.servers[0], "cleaned")),
        *(url_of(each) for each in stage.servers),
        cwd=repository.ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    program = Program(process)
    assert process.stderr is not None
    reading = asyncio.gather(program.read(), process.stderr.read(), process.wait())
    try:
        await until(lambda: program.said("held"), 60)
        yield program
        async with asyncio.timeout(30):
            _, errors, code = await reading
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.gather(reading, return_exceptions=True)
        await stage.servers[0].delete("{cleaned} 0", "{cleaned} 1")
    text = errors.decode()
    assert not any(word in text for word in UNCLEAN), text
    assert (code, program.rows[-1]) == (0, "ended"), text


async def held(stage: Stage, server: Redis, name: str) -> bool:
    """Whether a server says that a thing, in all its parts, is held."""
    if stage.kind.semaphore:
        return bool(await server.get(name) == b"0")
    names = member_names(name, stage.kind.members)
    return bool(await server.exists(*names) == len(names))


async def assert_held_until_cleaned(stage: Stage, names: list[str]) -> None:
    """Watch the servers: nothing may be free before its cleanup has ended."""
    # A red lock may be held on all but one.
    quorum = len(stage.servers) // 2 + 1

    async def free_when_cleaned(number: int, name: str) -> None:
        while sum([await held(stage, server, name) for server in stage.servers]) >= quorum:
            await asyncio.sleep(0.02)
        # Written before the block was left.
        assert await stage.servers[0].exists(f"{{cleaned}} {number}"), f"{name} was free too early"

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        for number, name in enumerate(names):
            group.create_task(free_when_cleaned(number, name))


def assert_cleaned(program: Program, count: int) -> None:
    """Fail unless every cleanup ran to its end, and knew of no loss."""
    for number in range(count):
        assert f"cleaned {number}" in program.rows, program.rows
    assert not program.said("lost")
    assert not program.said("interrupted")


@pytest.mark.also("cluster")
@some_kinds
@pytest.mark.parametrize("how", ["interrupted", "returns"])
async def test_held_until_the_tasks_have_cleaned_up(stage: Stage, how: str) -> None:
    names = [stage.name, f"{stage.name}-other"]
    async with running(stage, how) as program:
        if how == "interrupted":
            program.process.send_signal(signal.SIGINT)
        await assert_held_until_cleaned(stage, names)
    assert_cleaned(program, 2)
    assert program.said("keyboard interrupt") is (how == "interrupted")
    await until_async(stage.free)
    await (await stage.rival().thing.acquire(timeout=15)).release()


@pytest.mark.also("cluster")
@pytest.mark.parametrize("stage", ["lock", "red_lock", "semaphore"], indirect=True)
async def test_held_until_a_generator_has_cleaned_up(stage: Stage) -> None:
    """`asyncio.run` closes generators when all tasks have ended, the client's own too."""
    async with running(stage, "generator") as program:
        await assert_held_until_cleaned(stage, [stage.name])
    assert_cleaned(program, 1)
    await (await stage.rival().thing.acquire(timeout=15)).release()


@pytest.mark.also("cluster")
@pytest.mark.parametrize("stage", ["red_lock"], indirect=True)
@pytest.mark.parametrize("pause", [450, 2000], ids=["slow", "silent"])
@pytest.mark.more
async def test_every_connection_is_closed_when_a_quorum_has_answered(
    stage: Stage, pause: int
) -> None:
    """The last server answers later than the others, or too late to be waited for."""
    async with running(stage, "generator") as program:
        await until(lambda: program.said("cleaning 0"), 30)
        # Longer than the cleanup takes.
        await stage.servers[-1].client_pause(pause)
        await assert_held_until_cleaned(stage, [stage.name])
    assert_cleaned(program, 1)
