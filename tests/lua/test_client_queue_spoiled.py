"""The queue of clients vanishes, is of another type, or is full of the dead."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from tests.fixtures.measured import Measured
from tests.support.counting import Counted
from tests.support.scripts.calls import Scripts, ask
from tests.support.scripts.client_queue import (
    BOTH_WAYS,
    HOLDER,
    LONG,
    Hearing,
    QueueScripts,
    X,
    Y,
    Z,
    freed,
    owner_of,
    queue_up,
)

each_way = pytest.mark.parametrize("lease_ms", BOTH_WAYS)


class TestWhatVanishes:
    """The server evicts the queue, or somebody deletes it."""

    async def test_while_it_is_held(self, queue: QueueScripts, heard: Hearing) -> None:
        await queue_up(queue, X, Y)
        await ask(queue.redis, "DEL", queue.clients)
        assert await queue.leaves(X) == 0
        assert (await queue.asks(Y))[1] == 0
        assert (await queue.asks(X))[1] == 1
        await ask(queue.redis, "DEL", queue.clients)
        assert await queue.release(HOLDER) == 2
        assert [await heard(each) for each in (X, Y, "all")] == [[], [], ["00"]]
        assert await queue.asks(Y) is None
        assert (await queue.asks(X))[1] == 0

    async def test_after_a_call(self, queue: QueueScripts, heard: Hearing) -> None:
        await queue_up(queue, X, Y)
        await queue.release(HOLDER)
        await ask(queue.redis, "DEL", queue.clients)
        assert await queue.asks(Y) is None
        assert (await queue.asks(X))[1] == 0
        await ask(queue.redis, "DEL", queue.clients)
        assert await queue.force_release() == 1
        assert await queue.asks(X) is None

    async def test_all_but_the_note_of_a_call(self, queue: QueueScripts, heard: Hearing) -> None:
        await queue_up(queue, X)
        await queue.release(HOLDER)
        await queue.drop(X)
        assert await queue.asks(Y) is None
        assert (await queue.asks(X))[1] == 0
        assert await queue.release(owner_of(Y)) == -1
        assert await queue.asks(X) is None
        assert await queue.entries() == {}

    async def test_a_clock_that_goes_back_leaves_two_notes_and_nobody_stuck(
        self, queue: QueueScripts, heard: Hearing
    ) -> None:
        await freed(queue, X, Y, Z)
        await queue.called_ago(X, LONG)
        await queue.called_ago(Y, LONG)
        for client in (X, Y, Z):
            await queue.joined_ago(client, LONG)
        for _ in range(4):
            if await queue.asks(Z) is None:
                break
        else:
            pytest.fail("nobody gets it")
        assert await queue.release(owner_of(Z)) in (-1, 2)


async def test_the_queue_is_that_of_one_name(scripts: Scripts) -> None:
    assert QueueScripts(scripts, key=b"k").clients == b"{k}:redisson_py:clients"
    assert QueueScripts(scripts, key=b"{t}k").clients == b"{t}k:redisson_py:clients"


CROWD = 10_000


async def test_one_release_passes_over_all_the_dead(
    queue: QueueScripts, redis: Redis, heard: Hearing, measured: Measured
) -> None:
    await queue.acquire(HOLDER)
    dead = [f"0a1b2c3d-4e5f-4071-8293-{n:012x}" for n in range(CROWD)]
    for start in range(0, CROWD, 1000):
        pairs = [word for n in range(start, start + 1000) for word in (start + n, dead[n])]
        await ask(redis, "ZADD", queue.clients, *pairs)
    memory = await ask(redis, "MEMORY", "USAGE", queue.clients, "SAMPLES", "0")
    assert memory < 1_500_000
    assert (await queue.asks(X))[:2] == [-1, CROWD]
    async with Counted(redis) as counted:
        assert await queue.release(HOLDER) == -1
    assert await heard(X) == ["0"]
    assert (await queue.called(), await queue.waiting()) == (X, [X])
    # Each of the dead is called, the first twice, then X; '00'. The dead leave by the hundred.
    calls = [counted.calls[name] for name in ("publish", "zrange", "zrem")]
    rounds = 1 + CROWD // 100
    # These names say no side.
    assert calls == [CROWD + 3 - len(queue.suffix[:1]), rounds + 2, rounds]
    usec = (await redis.info("commandstats"))["cmdstat_eval"]["usec"]
    measured(f"{CROWD} dead clients in a queue", f"{memory} bytes, a release of {usec} us")
