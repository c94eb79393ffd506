"""A release of ours wakes Redisson's threads when ours have made up for their grants."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from redisson_py import _keys
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.java import Java
from tests.support.monitor import Monitor
from tests.support.waiting import until_async

QUEUE = _keys.waiting_clients(b"k")
#: What Java calls it, how it takes and gives it back, its channel, what wakes Java there, and what
#: is said there that Java ignores.
KINDS = {
    "lock": ("getLock", "lock", "unlock", "redisson_lock__channel:{k}", "00", ["02"]),
    "semaphore": ("getSemaphore", "acquire", "release", "redisson_sc:{k}", "01", []),
}
#: The score of the entry of lua/lib/wake_foreign, where nothing is owed.
NOTHING = 4_000_000_000_000_000


@pytest.mark.parametrize("kind", KINDS)
async def test_a_release_that_owes_redisson_nothing_leaves_its_threads_asleep(
    kind: str,
    only_messages: None,
    clients: ClientFactory,
    redissons: RedissonFactory,
    java: Java,
    redis: Redis,
) -> None:
    get, take, give, shared, woken_by, ignored = KINDS[kind]
    theirs = await (await redissons()).get(get, "k")
    first, *others = [
        each.get_lock("k") if kind == "lock" else each.get_semaphore("k", 1)
        for each in [clients(lease_time=300, idle_lifetime=600) for _ in range(4)]
    ]
    lease = await first.acquire()
    java_waits = theirs.call(take, thread="java")
    await until_async(lambda: java.driver.call("sleeps", "java"))
    given: list[asyncio.Event] = [asyncio.Event() for _ in others]
    goes_on: list[asyncio.Event] = [asyncio.Event() for _ in others]

    async def visit(number: int) -> None:
        async with others[number]:
            given[number].set()
            await goes_on[number].wait()

    async with asyncio.timeout(60), asyncio.TaskGroup() as group, Monitor(redis) as monitor:
        for number in range(3):
            group.create_task(visit(number))

            async def waits(count: int = number + 1) -> bool:
                return await redis.zcard(QUEUE) == count

            await until_async(waits)

        async def said() -> list[str]:
            messages = await monitor.messages("k")
            return [message for channel, message in messages if channel == shared]

        await redis.zadd(QUEUE, {"<1": NOTHING + 1})
        await lease.release()
        await given[0].wait()
        assert await said() == ignored
        assert await java.driver.call("sleeps", "java")
        assert not java_waits.done()
        # Now ours have made up for it.
        goes_on[0].set()
        for event in goes_on[1:]:
            event.set()
        await java_waits
        # Java may come before the client that is called: only the first message is certain.
        assert woken_by in await said()
        await theirs.call(give, thread="java")
