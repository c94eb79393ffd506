"""The queue of clients leaves Redisson's clients their share, and ours theirs: lib/wake_foreign."""

from __future__ import annotations

from contextlib import AsyncExitStack

from redis.asyncio import Redis

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import ask
from tests.support.scripts.client_queue import (
    HOLDER,
    JAVA,
    Hearing,
    QueueScripts,
    X,
    Y,
    Z,
    owner_of,
    queue_up,
)

#: The score of an entry that says that ours are owed nothing.
OWED_NOTHING = 4_000_000_000_000_000


async def java_takes_it(queue: QueueScripts) -> None:
    """Free it, and have Redisson take it before the one that was called."""
    await ask(queue.redis, "DEL", queue.key)
    await queue.put(JAVA)


async def test_who_was_granted_more_than_its_share_is_not_woken(
    queue: QueueScripts, heard: Hearing
) -> None:
    await queue_up(queue, X, Y, Z)
    assert await queue.release(HOLDER) == -1
    assert await heard("all") == ["00"]
    # One listens, and three of ours wait: so much is one grant of ours worth, and one of theirs.
    assert await queue.owed() == (1, -1)
    await java_takes_it(queue)
    for owed in (2, 5):
        assert (await queue.asks(X))[2] == 1
        assert await queue.owed() == (1, owed)
    # Only the first counts.
    assert (await queue.asks(Y))[2] == 1
    assert await queue.owed() == (1, 5)
    await ask(queue.redis, "DEL", queue.key)
    assert await queue.asks(X) is None
    assert await queue.release(owner_of(X)) == -1
    # A 02 says nothing to Redisson, but has the first two of ours look after the called one.
    assert (await heard("all"), await heard(Y)) == (["02"], ["0"])
    assert await queue.owed() == (1, 4)
    # One that waits alone could be dead without anybody else to notice.
    assert await queue.asks(Y) is None
    assert await queue.release(owner_of(Y)) == -1
    assert (await heard("all"), await heard(Z)) == (["00"], ["2", "0"])
    assert await queue.owed() is None


async def test_it_is_woken_again_when_ours_have_made_up(
    queue: QueueScripts, heard: Hearing
) -> None:
    await queue_up(queue, X, Y, Z)
    await ask(queue.redis, "ZADD", queue.clients, OWED_NOTHING + 2, "<2")
    said = []
    for holder, following in ((HOLDER, X), (owner_of(X), Y), (owner_of(Y), Z)):
        assert await queue.release(holder) == -1
        said.append(await heard("all"))
        assert await queue.asks(following) is None
        assert (await queue.asks(holder.partition(":")[0]))[1] >= 0
    assert said == [["02"], ["00"], ["00"]]


async def test_what_is_owed_has_bounds(queue: QueueScripts, heard: Hearing) -> None:
    await queue_up(queue, X, Y)
    await ask(queue.redis, "ZADD", queue.clients, OWED_NOTHING - 8, "<1")
    assert await queue.release(HOLDER) == -1
    assert await heard("all") == ["00"]
    assert await queue.owed() == (1, -8)
    await java_takes_it(queue)
    for _ in range(50):
        assert (await queue.asks(X))[2] == 1
    assert await queue.owed() == (1, 2 * 32)


async def test_where_only_ours_listen_nothing_is_kept(queue: QueueScripts, redis: Redis) -> None:
    async with AsyncExitStack() as stack:
        for each in (X, Y):
            await stack.enter_async_context(listening(redis, queue.own_channel(each)))
        await queue_up(queue, X, Y)
        assert await queue.release(HOLDER) == -1
        assert await queue.owed() is None


async def test_the_last_of_ours_wakes_redisson_when_it_leaves(
    queue: QueueScripts, heard: Hearing
) -> None:
    await queue_up(queue, X, Y)
    await ask(queue.redis, "ZADD", queue.clients, OWED_NOTHING + 2, "<2")
    assert await queue.release(HOLDER) == -1
    assert await queue.leaves(X) == 1
    assert (await heard("all"), await heard(Y)) == (["02"], ["0"])
    assert await queue.leaves(Y) == 1
    assert await heard("all") == ["00"]
    assert await queue.entries() == {}


async def test_the_last_that_leaves_a_lock_of_redissons_leaves_nothing(
    queue: QueueScripts, heard: Hearing
) -> None:
    await queue_up(queue, X, Y)
    assert await queue.release(HOLDER) == -1
    await java_takes_it(queue)
    assert (await queue.asks(X))[2] == 1
    assert await queue.leaves(X) == await queue.leaves(Y) == 1
    assert await queue.entries() == {}
    assert await heard("all") == ["00"]
