"""Odd names, and prefixes against Redisson's NameMapper: one lock, and wake-ups, for both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import pytest

from redisson_py import Redisson
from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.java import Java, JavaObject
from tests.interop.kinds import LONG, SOON, Scene, Theirs, at_once, until_ours_waits

pytestmark = pytest.mark.also("interop-cluster")

NAMES = (
    "{tag}x",
    "x{y}z",
    "a}b{c}d",
    "{}x",
    "{",
    "}",
    "two  words ",
    'it\'s "quoted" \\ back',
    "100%s *?[a-c]:$1",
    "line\nbreak\tand\0null",
    "grüße, слон, 象",
    "🐘🔒",
    "n" * 2000,
)
#: Of these, those whose keys a cluster has in several slots, and one that Redisson seeks elsewhere:
#: see test_cluster.py.
NOT_IN_CLUSTERS = ("{}x", "{", "}", "a}b{c}d")
PREFIX = "läden {1}: "
Play = Callable[[Redisson, Theirs, str], Awaitable[None]]
Usable = Callable[..., bool]
#: What both sides call the same, in their own ways.
MAPPED: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({"prefix": "shop:"}, "shop:"),
    ({"prefix": PREFIX}, PREFIX),
    ({"name_mapper": lambda name: f"shop:{name}"}, "shop:"),
)


@pytest.fixture
def usable(session_cluster: EmbeddedCluster | None) -> Usable:
    """Whether a name can be used on the session's server, for a play if it is given."""

    def usable(name: str, play: Play | None = None) -> bool:
        if session_cluster is None:
            return True
        return name not in NOT_IN_CLUSTERS and not (play is latch and {"{", "}"} & {*name})

    return usable


async def lock_goes_to_and_fro(
    scene: Scene,
    redissons: list[JavaObject],
    options: Mapping[str, Any] = {},
    prefix: str = "",
) -> None:
    theirs, ours = await scene.theirs(redissons=redissons), scene.ours(**options)
    assert await theirs.try_lock()
    assert await scene.holding(prefix)
    assert await ours.try_acquire() is None
    waiting = asyncio.create_task(ours.acquire())
    await until_ours_waits(ours)
    async with asyncio.timeout(SOON):
        await theirs.unlock()
        lease = await waiting
    assert await scene.holding(prefix)
    assert not await theirs.try_lock()
    java_waits = await theirs.waits()
    async with asyncio.timeout(SOON):
        await lease.release()
        assert await java_waits
    await theirs.unlock("b")


@pytest.mark.usefixtures("only_messages")
async def test_locks_of_any_name_are_shared(scene: Scene, usable: Usable) -> None:
    play = partial(lock_goes_to_and_fro, redissons=(await scene.theirs()).redissons)
    await at_once([scene.called(name) for name in NAMES if usable(name)], play)


@pytest.mark.usefixtures("only_messages")
async def test_locks_are_shared_under_a_prefix(scene: Scene) -> None:
    if scene.kind.queues and not scene.java.since(3, 52):
        pytest.skip(f"Redisson {scene.java.release} has no prefix before the names of its queues")
    for options, prefix in MAPPED:
        redissons = (await scene.theirs(prefix=prefix)).redissons
        for name in ("k", "{k}"):
            await lock_goes_to_and_fro(scene.called(name), redissons, options, prefix)


async def read_lock(ours: Redisson, theirs: Theirs, name: str) -> None:
    both = await theirs.lock.get("getReadWriteLock", name)
    write = theirs.of(await both.get("writeLock"))
    read = ours.get_read_write_lock(name).read_lock()
    assert await write.try_lock()
    waiting = asyncio.create_task(read.acquire())
    await until_ours_waits(read)
    await write.unlock()
    lease = await waiting
    java_waits = await write.waits()
    await lease.release()
    assert await java_waits
    await write.unlock("b")


async def semaphore(ours: Redisson, theirs: Theirs, name: str) -> None:
    java = theirs.of(await theirs.lock.get("getSemaphore", name))
    here = ours.get_semaphore(name)
    assert await java.call("trySetPermits", 1)
    assert await java.call("tryAcquire")
    assert await here.try_acquire() is None
    waiting = asyncio.create_task(here.acquire())
    await until_ours_waits(here)
    await java.call("release")
    permit = await waiting
    java_waits = java.send("tryAcquire", LONG, "SECONDS", thread="b")
    await java.until_asleep()
    await permit.release()
    assert await java_waits
    assert await java.call("delete")


async def permit_semaphore(ours: Redisson, theirs: Theirs, name: str) -> None:
    java = theirs.of(await theirs.lock.get("getPermitExpirableSemaphore", name))
    here = ours.get_permit_expirable_semaphore(name)
    assert await here.try_set_permits(1)
    number = await java.call("tryAcquire")
    assert await here.try_acquire() is None
    waiting = asyncio.create_task(here.acquire())
    await until_ours_waits(here)
    await java.call("release", number)
    permit = await waiting
    java_waits = java.send("tryAcquire", LONG, "SECONDS", thread="b")
    await java.until_asleep()
    await permit.release()
    await here.release(await java_waits)
    assert await java.call("delete")


async def latch(ours: Redisson, theirs: Theirs, name: str) -> None:
    java = theirs.of(await theirs.lock.get("getCountDownLatch", name))
    here = ours.get_latch(name)
    assert await java.call("trySetCount", 1)
    waiting = asyncio.create_task(here.wait())
    await until_ours_waits(here)
    await java.call("countDown")
    await waiting
    assert await here.try_set_count(1)
    java_waits = java.send("await", LONG, "SECONDS", thread="b")
    await java.until_asleep()
    assert await here.count_down() == 0
    assert await java_waits


#: Seconds for a whole play, in which Java subscribes several times.
PATIENCE = 60

others = pytest.mark.parametrize("play", [read_lock, semaphore, permit_semaphore, latch])


@others
@pytest.mark.usefixtures("only_messages")
async def test_whatever_its_name_it_is_shared(
    play: Play, clients: ClientFactory, redisson: JavaObject, java: Java, usable: Usable
) -> None:
    for name in filter(partial(usable, play=play), NAMES):
        async with asyncio.timeout(PATIENCE):
            await play(clients(), Theirs(java, [redisson], [redisson]), name)


@others
@pytest.mark.usefixtures("only_messages")
async def test_whatever_its_prefix_it_is_shared(
    play: Play, clients: ClientFactory, redissons: RedissonFactory, java: Java, usable: Usable
) -> None:
    for options, prefix in MAPPED:
        redisson = await redissons(prefix=prefix)
        for name in [each for each in ("k", "{k}") if usable(prefix + each, play)]:
            async with asyncio.timeout(PATIENCE):
                await play(clients(**options), Theirs(java, [redisson], [redisson]), name)


async def test_a_prefix_is_part_of_the_name(
    redissons: RedissonFactory, clients: ClientFactory
) -> None:
    prefixed = await (await redissons(prefix="shop:")).get("getLock", "k")
    await prefixed.call("lock")
    assert await clients(prefix="shop:").get_lock("k").locked()
    assert await clients().get_lock("shop:k").locked()
    assert not await clients().get_lock("k").locked()
    assert not await clients(prefix="shop:").get_lock("shop:k").locked()
    await prefixed.call("unlock")
