"""A lease goes from process to process; Java waits until the last one has ended."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py import LeaseLostError, Redisson
from redisson_py._time import now
from redisson_py.locks.lock import ServerLock
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.java import MS, Java
from tests.interop.kinds import LONG, must_look_again
from tests.interop.waits import soon, until_asleep

pytestmark = pytest.mark.usefixtures("only_messages")

KINDS = {"getLock": "get_lock", "getFairLock": "get_fair_lock", "getFencedLock": "get_fenced_lock"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Redisson's method for a kind of lock."""
    made: str = request.param
    return made


def ours(kind: str, client: Redisson) -> ServerLock:
    made: ServerLock = getattr(client, KINDS[kind])("k")
    return made


@pytest.mark.also("interop-cluster", "interop-older")
async def test_java_gets_it_after_the_last_one_and_not_in_between(
    kind: str, clients: ClientFactory, redissons: RedissonFactory
) -> None:
    theirs = await (await redissons()).get(kind, "k")
    givers = [clients() for _ in range(3)]
    lease: Any = await ours(kind, givers[0]).acquire()
    waiting = theirs.call("tryLock", 1000 * LONG, MS, thread="a")
    for taker in (*givers[1:], givers[0]):
        token = await lease.hand_over()
        await until_asleep(theirs, "a")
        assert await theirs.call("tryLock", thread="b") is False
        assert await theirs.call("isLocked", thread="b") is True
        lease = await taker.adopt(token)
    await until_asleep(theirs, "a")
    await lease.release()
    assert await soon(waiting) is True
    assert await ours(kind, givers[0]).try_acquire() is None
    if lease.token is not None:
        assert await theirs.call("getToken", thread="b") > lease.token
    await theirs.call("unlock", thread="a")
    async with ours(kind, givers[0]):
        pass


async def test_java_gets_it_if_nobody_adopts(
    kind: str, clients: ClientFactory, redissons: RedissonFactory, java: Java
) -> None:
    must_look_again(kind, java)
    theirs = await (await redissons()).get(kind, "k")
    client = clients(lease_time=3)
    began = now()
    lease = await ours(kind, client).acquire()
    waiting = theirs.call("tryLock", 1000 * LONG, MS, thread="a")
    await until_asleep(theirs, "a")
    token = await lease.hand_over()
    assert await soon(waiting) is True
    assert now() - began >= 3
    with pytest.raises(LeaseLostError, match="came too late"):
        await client.adopt(token)
    await theirs.call("unlock", thread="a")


@pytest.mark.also("interop-cluster")
async def test_java_hears_that_the_adopter_needs_less_than_the_giver_left(
    kind: str, clients: ClientFactory, redissons: RedissonFactory, java: Java
) -> None:
    must_look_again(kind, java)
    theirs = await (await redissons()).get(kind, "k")
    taker = clients(lease_time=3)
    token = await (await ours(kind, clients()).acquire()).hand_over(lease_time=LONG)
    waiting = theirs.call("tryLock", 1000 * LONG, MS, thread="a")
    await until_asleep(theirs, "a")
    adopted = await taker.adopt(token)
    await taker.ping()
    # As if its process had died.
    taker._watchdog.lose(adopted._hold, "forced")
    assert await soon(waiting) is True
    await theirs.call("unlock", thread="a")


async def test_java_frees_it_by_force_on_its_way(
    kind: str, client: Redisson, redissons: RedissonFactory
) -> None:
    theirs = await (await redissons()).get(kind, "k")
    token = await (await ours(kind, client).acquire()).hand_over()
    assert await theirs.call("forceUnlock") is True
    with pytest.raises(LeaseLostError, match="not on this server"):
        await client.adopt(token)
    assert await theirs.call("tryLock", thread="a") is True
    with pytest.raises(LeaseLostError, match="not on this server"):
        await client.adopt(token)
    assert await theirs.call("isHeldByCurrentThread", thread="a") is True
    await theirs.call("unlock", thread="a")
