"""The fair lock's keys, scores and messages are those of Redisson.

What Redisson's own scripts left behind was recorded there; here ours must leave the same. Three
things differ, none of which Redisson can see: replies tell how long not to ask, where Redisson's
tell how far back in the queue one is (protocol 4.3); `redisson_py:waiters` is ours; and a release
that found nothing is told from one that did.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.lua.test_golden_vectors import listening
from tests.support.scripts.calls import LEASE, Scripts, ask, everything
from tests.support.scripts.fair import FairScripts, server_ms

#: Client ids and thread numbers, as Redisson writes them.
A = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9:31"
B = "0a1b2c3d-4e5f-4071-8293-a4b5c6d7e8f9:32"
C = "f9e8d7c6-b5a4-4392-8170-5f4e3d2c1b0a:1"
D = "f9e8d7c6-b5a4-4392-8170-5f4e3d2c1b0a:2"
E = "f9e8d7c6-b5a4-4392-8170-5f4e3d2c1b0a:3"

CHANNEL = b"redisson_lock__channel:{fk}:"
QUEUE = b"redisson_lock_queue:{fk}"
TIMEOUTS = b"redisson_lock_timeout:{fk}"


@pytest_asyncio.fixture
async def fk(scripts: Scripts) -> AsyncIterator[FairScripts]:
    """The fair lock of the vectors."""
    fk = FairScripts(scripts, key=b"fk")
    yield fk
    await fk.everybody_leaves()


def about(score: float) -> object:
    """A number that the time between two commands may have made a little smaller or greater."""
    return pytest.approx(score, abs=4000)


async def busy(fk: FairScripts, owner: str, wait_ms: int = 300_000) -> None:
    reply = await fk.acquire(owner, wait_ms=wait_ms)
    assert reply is not None
    assert LEASE - 20_000 < reply <= LEASE


async def test_fair_lock(fk: FairScripts, redis: Redis) -> None:
    async with AsyncExitStack() as stack:
        heard = {
            owner: await stack.enter_async_context(listening(redis, CHANNEL + owner.encode()))
            for owner in (A, B, C, D, E)
        }

        async def messages() -> dict[str, list[bytes]]:
            found = {owner: await each.heard() for owner, each in heard.items()}
            return {owner: payloads for owner, payloads in found.items() if payloads}

        # 1.
        assert await fk.acquire(A) is None
        assert await fk.holds() == {A: 1}
        assert LEASE - 20_000 < await redis.pttl(b"fk") <= LEASE
        await busy(fk, B)
        await busy(fk, C, 5000)
        await busy(fk, D)
        assert await ask(redis, "LRANGE", QUEUE, 0, -1) == [B.encode(), C.encode(), D.encode()]
        assert await fk.moments(TIMEOUTS) == {
            B: about(330_000),
            C: about(335_000),
            D: about(635_000),
        }
        assert await redis.pttl(QUEUE) == await redis.pttl(TIMEOUTS) == -1
        await busy(fk, B)
        assert (await fk.moments())[B] == about(330_000)
        before = await everything(redis)
        assert (await fk.try_once(E) or 0) > 0
        assert await everything(redis) == before
        # 2.
        assert await fk.leave(C, 5000) is None
        assert await fk.queued() == [B, D]
        assert await fk.moments() == {B: about(330_000), D: about(630_000)}
        assert await messages() == {}
        # 3.
        assert await fk.release(A) == 2  # freed, and one client told
        assert await messages() == {B: [b"0"]}
        for _ in range(3):
            # Not 0, which makes Redisson ask again at once.
            assert await fk.acquire(D) == about(LEASE)
        assert await fk.acquire(E) == about(LEASE)
        assert await fk.moments() == {
            B: about(330_000),
            D: about(630_000),
            E: about(930_000),
        }
        assert await fk.release(A) is None
        assert await messages() == {B: [b"0"]}
        # 4.
        assert await fk.acquire(B) is None
        assert await fk.queued() == [D, E]
        assert await fk.moments() == {D: about(330_000), E: about(630_000)}
        assert await fk.force_release() == 1
        assert await fk.queued() == [D, E]
        assert await messages() == {D: [b"0"]}


async def test_scores_are_milliseconds_of_the_epoch_in_plain_digits(
    fk: FairScripts, redis: Redis
) -> None:
    await fk.acquire(A)
    await fk.acquire(B)
    for key, least in ((TIMEOUTS, 330_000), (b"{fk}:redisson_py:waiters", 30_000)):
        score = await ask(redis, "ZSCORE", key, B)
        # A number with RESP3, as redis-py may speak it; else its digits.
        assert float(score) == about(await server_ms(redis) + least)
        if isinstance(score, bytes):
            assert score.isdigit()


async def test_what_redisson_does_in_these_tests_is_what_the_vectors_say(fk: FairScripts) -> None:
    """The stand-in for Redisson of the neighbouring tests, held against the same vectors."""
    assert await fk.java_tries(A) is None
    assert await fk.java_tries(B) == about(30_000)
    assert await fk.java_tries(C, 5000) == about(330_000)
    assert await fk.java_tries(D) == about(335_000)
    assert await fk.queued() == [B, C, D]
    assert await fk.moments() == {B: about(330_000), C: about(335_000), D: about(635_000)}
    assert await fk.java_tries(B) == about(30_000)
    assert await fk.leave(C, 5000) is None
    assert await fk.java_unlocks(A) == 1
    assert [await fk.java_tries(D) for _ in range(3)] == [0, 0, 0]
    assert await fk.java_tries(E) == about(630_000)
    assert await fk.java_unlocks("nobody:1") == 1
    assert await fk.java_tries(B) is None
    assert await fk.moments() == {D: about(330_000), E: about(630_000)}
