"""What goes wrong between the clients of a queue and their server: messages, connections, room."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from redisson_py import LeaseLostError, Redisson, ScriptError
from redisson_py._engine.wakeups import Table
from redisson_py.testing import EmbeddedServer
from tests.crowd.kinds import channel_of, each_queue, holding, of_kind, one_by_one_queues
from tests.crowd.queue_look import QUEUE, until_in_queue, until_nobody_is_left
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.fixtures.redis_server import PASSWORD, ProxyFactory, documented_rules, url_of_user
from tests.support.waiting import set_safety_poll, until

pytestmark = pytest.mark.timeout(120)

#: Seconds in which everybody must have come who needs no safety poll.
SOON = 60


async def queued(crowd: Sequence[Redisson], redis: Redis, kind: str) -> list[asyncio.Task[Any]]:
    """Have clients wait for the lock, in this order."""
    tasks = []
    for number, client in enumerate(crowd, 1):
        tasks.append(asyncio.create_task(of_kind(client, kind).acquire()))
        await until_in_queue(redis, number)
    return tasks


async def served(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Have all of them come, in any order, one after the other."""
    async with asyncio.timeout(SOON):
        for each in asyncio.as_completed(tasks):
            await (await each).release()


@each_queue
async def test_lost_messages_cost_no_more_than_a_safety_poll(
    clients: ClientFactory,
    redis: Redis,
    measured: Measured,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    set_safety_poll(monkeypatch, 1.0)
    deliver = Table.rang

    def drop_half(table: Table, channel: bytes, message: int) -> None:
        if random.random() < 0.5:
            deliver(table, channel, message)

    monkeypatch.setattr(Table, "rang", drop_half)
    loop = asyncio.get_running_loop()
    granted = Counter[int]()
    moments = [loop.time()]

    async def work(number: int) -> None:
        # Of two sides, some write.
        lock = of_kind(clients(), "write" if kind == "read" and number % 4 == 0 else kind)
        while min(granted[each] for each in range(8)) < 5:
            async with lock:
                moments.append(loop.time())
                granted[number] += 1
            # Readers that always overlap keep writers out.
            await asyncio.sleep(0.002 if kind == "read" else 0)

    async with asyncio.timeout(SOON):
        await asyncio.gather(*[work(number) for number in range(8)])
    gaps = [after - before for before, after in itertools.pairwise(moments)]
    measured("s between grants, half of the messages lost", (sum(gaps) / len(gaps), max(gaps)))
    measured("grants of each", sorted(granted.values()))
    await until_nobody_is_left(redis)


@each_queue
@pytest.mark.parametrize("which", [[0], [1], [2], [0, 1], [0, 1, 2, 3]])
async def test_waiters_come_back_when_their_connections_break(
    clients: ClientFactory,
    client: Redisson,
    redis: Redis,
    proxy: ProxyFactory,
    which: list[int],
    kind: str,
) -> None:
    lease = await holding(client, kind).acquire()
    link = await proxy()
    crowd = [clients(url=link.url) if each in which else clients() for each in range(4)]
    tasks = await queued(crowd, redis, kind)
    link.refuse()
    assert link.cut() >= len(which)
    await lease.release()
    link.pass_through()
    await served(tasks)
    await until_nobody_is_left(redis)


@each_queue
@pytest.mark.usefixtures("one_server")
async def test_a_queue_that_is_lost_is_made_again(
    clients: ClientFactory, client: Redisson, redis: Redis, kind: str
) -> None:
    lease = await holding(client, kind).acquire()
    crowd = [clients() for _ in range(6)]
    tasks = await queued(crowd, redis, kind)
    await redis.delete(QUEUE)
    # Nobody is called; the first two listen to all releases.
    await lease.release()
    done, waiting = await asyncio.wait(tasks, timeout=SOON, return_when=asyncio.FIRST_COMPLETED)
    assert done & set(tasks[:2])
    for each in done:
        await each.result().release()
    # The others ask when their connection is a new one, or by the safety poll.
    await redis.client_kill_filter(_type="pubsub", skipme=True)
    await served(list(waiting))
    await until_nobody_is_left(redis)


@each_queue
async def test_a_restarted_server_has_the_crowd_again(
    clients: ClientFactory, own_server: EmbeddedServer, kind: str
) -> None:
    holder = clients(url=own_server.url)
    held = await holding(holder, kind).acquire()
    crowd = [clients(url=own_server.url) for _ in range(6)]
    async with Redis.from_url(own_server.url) as redis:
        tasks = await queued(crowd, redis, kind)
        await own_server.kill()
        await own_server.start()
    with pytest.raises(LeaseLostError):
        await held.release()
    await served(tasks)
    async with Redis.from_url(own_server.url) as redis:
        await until_nobody_is_left(redis)


@one_by_one_queues
async def test_a_full_server_lets_the_crowd_through_when_there_is_room(
    clients: ClientFactory, own_server: EmbeddedServer, kind: str
) -> None:
    granted = Counter[int]()
    answers = 0
    enough = asyncio.Event()

    async def work(number: int) -> None:
        nonlocal answers
        lock = of_kind(clients(url=own_server.url), kind)
        while not enough.is_set():
            answers += 1
            # Only who finds nobody in the queue is refused.
            with suppress(ScriptError):
                async with lock:
                    granted[number] += 1
            await asyncio.sleep(0.001)

    async with (
        Redis.from_url(own_server.url) as redis,
        asyncio.timeout(SOON),
        asyncio.TaskGroup() as group,
    ):
        for number in range(8):
            group.create_task(work(number))
        for _ in range(5):
            before = answers
            await redis.config_set("maxmemory", 1)
            await until(lambda before=before: answers > before + 40)  # type: ignore[misc]
            await redis.config_set("maxmemory", 0)
            some = granted.copy()
            await until(lambda some=some: all(granted[each] > some[each] for each in range(8)))  # type: ignore[misc]
        enough.set()
    async with Redis.from_url(own_server.url) as redis:
        await until_nobody_is_left(redis)


@pytest_asyncio.fixture
async def narrow_url(
    one_server: None, redis: Redis, server_url: str, kind: str
) -> AsyncIterator[str]:
    """The URL of a user who may use the shared channel only."""
    rules = (*documented_rules(), "resetchannels", f"&{channel_of(kind)}")
    user = "ACL", "SETUSER", "narrow", "on", f">{PASSWORD}", *rules
    await redis.execute_command(*user)  # type: ignore[no-untyped-call]  # redis-py's
    yield url_of_user(server_url, "narrow")
    await redis.acl_deluser("narrow")


@pytest.mark.usefixtures("one_server")
@each_queue
@pytest.mark.parametrize("narrow", [range(4), range(2), range(2, 4)], ids=["all", "first", "last"])
async def test_without_channels_of_their_own_clients_look_for_themselves(
    clients: ClientFactory,
    redis: Redis,
    narrow_url: str,
    narrow: range,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    set_safety_poll(monkeypatch, 0.5)
    granted = Counter[int]()

    async def work(number: int) -> None:
        client = clients(**({"url": narrow_url} if number in narrow else {}))
        lock = of_kind(client, "write" if kind == "read" and number % 2 else kind)
        while granted[number] < 3:
            async with lock:
                granted[number] += 1
                await asyncio.sleep(0.03)

    async with asyncio.timeout(SOON):
        await asyncio.gather(*[work(number) for number in range(4)])
    await until_nobody_is_left(redis)
