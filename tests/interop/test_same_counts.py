"""The same steps with counters, by Redisson and by us: see test_same_steps.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Permit, Redisson
from tests.fixtures.client import ClientFactory
from tests.interop.java import MS, JavaObject
from tests.interop.same_steps import Keyspaces, Notes, acquire_first, differences
from tests.support.waiting import until_async

pytestmark = pytest.mark.also("interop-older", "interop-cluster")

Step = tuple[str, Callable[[], Awaitable[Any]], Callable[[], Awaitable[Any]]]

CHANNEL, ENDS = "redisson_sc:{N}", "{N}:timeout"


async def taken(keyspaces: Keyspaces, *steps: Step) -> tuple[Notes, Notes]:
    """Have both sides take each step; return what was to be seen after it."""
    notes: tuple[Notes, Notes] = {}, {}
    for label, java, ours in steps:
        for side, step in enumerate((java, ours)):
            await step()
            notes[side][label] = await keyspaces[side].look()
    return notes


async def test_semaphore(
    keyspaces: Keyspaces, redisson: JavaObject, client: Redisson, redis: Redis
) -> None:
    theirs = await redisson.get("getSemaphore", "of-java")
    await acquire_first(client)
    ours = client.get_semaphore("of-us")

    async def ours_refused() -> None:
        assert await ours.try_acquire(2) is None

    async def java_refused() -> None:
        assert not await theirs.call("tryAcquire", 2)

    java, mine = await taken(
        keyspaces,
        ("set", lambda: theirs.call("trySetPermits", 3), lambda: ours.try_set_permits(3)),
        ("set again", lambda: theirs.call("trySetPermits", 4), lambda: ours.try_set_permits(4)),
        ("take", lambda: theirs.call("acquire", 2), lambda: ours.acquire(2)),
        ("refused", java_refused, ours_refused),
        ("release", lambda: theirs.call("release", 2), lambda: ours.release(2)),
        ("release more", lambda: theirs.call("release", 5), lambda: ours.add_permits(5)),
        ("drain", lambda: theirs.call("drainPermits"), ours.drain),
        ("add", lambda: theirs.call("addPermits", 4), lambda: ours.add_permits(4)),
        ("reduce", lambda: theirs.call("addPermits", -9), lambda: ours.add_permits(-9)),
    )
    await redis.delete("of-java", "of-us")
    assert [note["N"] for note in java.values()] == [
        (count, -1) for count in ("3", "3", "1", "1", "3", "8", "0", "4", "-5")
    ]
    assert differences(java, mine) == {
        # Redisson's own listeners fail on a negative number.
        "reduce": {"messages": ([(CHANNEL, "-5")], None)},
    }
    # Who has how many until when, for the permits of holders that die; and how many there are.
    beside = ("permits", "units", "receipt", "total")
    assert keyspaces[1].beside == {f"redisson_py:{each}" for each in beside}


async def test_permits_with_ids(
    keyspaces: Keyspaces, redisson: JavaObject, clients: ClientFactory, redis: Redis
) -> None:
    theirs = await redisson.get("getPermitExpirableSemaphore", "of-java")
    client = clients(lease_time=300)
    await acquire_first(client)
    ours = client.get_permit_expirable_semaphore("of-us")
    ids: list[str] = []
    permits: list[Permit] = []

    async def java_takes(*lease: object) -> None:
        ids.append(await theirs.call("acquire", *lease))

    async def we_take(**lease: float) -> None:
        permits.append(await ours.acquire(**lease))

    async def java_when_ended() -> None:
        async def got() -> bool:
            if (permit := await theirs.call("tryAcquire")) is None:
                return False
            ids.append(permit)
            return True

        await until_async(got)

    async def we_when_ended() -> None:
        async def got() -> bool:
            if (permit := await ours.try_acquire()) is None:
                return False
            permits.append(permit)
            return True

        await until_async(got)

    java, mine = await taken(
        keyspaces,
        ("set", lambda: theirs.call("trySetPermits", 3), lambda: ours.try_set_permits(3)),
        ("take for 600 s", lambda: java_takes(600_000, MS), lambda: we_take(lease_time=600)),
        ("take", java_takes, we_take),
        ("take for 20 s", lambda: java_takes(20_000, MS), lambda: we_take(lease_time=20)),
        ("take what is over", java_when_ended, we_when_ended),
        ("release", lambda: theirs.call("release", ids[1]), lambda: ours.release(permits[1])),
        (
            "release two",
            lambda: theirs.call("release", [ids[0], ids[3]]),
            lambda: ours.release_many([permits[0], permits[3]]),
        ),
        ("set 5", lambda: theirs.call("setPermits", 5), lambda: ours.set_permits(5)),
        ("set 2", lambda: theirs.call("setPermits", 2), lambda: ours.set_permits(2)),
        ("add", lambda: theirs.call("addPermits", 3), lambda: ours.add_permits(3)),
        ("reduce", lambda: theirs.call("addPermits", -9), lambda: ours.add_permits(-9)),
    )
    await redis.delete("of-java", "of-us")
    assert [note["N"][0] for note in java.values()] == [*"3210013525", "-4"]

    def until(*seconds: object) -> tuple[list[tuple[str, object]], int]:
        return [("a permit", each) for each in seconds], -1

    # Ours end with a lease that is renewed, so that those of a dead holder come back.
    assert differences(java, mine) == {
        "take": {ENDS: (until(600, "never"), until(300, 600))},
        "take for 20 s": {ENDS: (until(50, 600, "never"), until(50, 300, 600))},
        "take what is over": {ENDS: (until(600, "never", "never"), until(300, 300, 600))},
        "release": {ENDS: (until(600, "never"), until(300, 600))},
    }
    assert java["take what is over"]["messages"] == [(CHANNEL, "1")]


async def test_latch(keyspaces: Keyspaces, redisson: JavaObject, client: Redisson) -> None:
    theirs = await redisson.get("getCountDownLatch", "of-java")
    ours = client.get_latch("of-us")
    java, mine = await taken(
        keyspaces,
        ("set", lambda: theirs.call("trySetCount", 2), lambda: ours.try_set_count(2)),
        ("set again", lambda: theirs.call("trySetCount", 3), lambda: ours.try_set_count(3)),
        ("first", lambda: theirs.call("countDown"), ours.count_down),
        ("second", lambda: theirs.call("countDown"), ours.count_down),
        ("third", lambda: theirs.call("countDown"), ours.count_down),
        ("set once more", lambda: theirs.call("trySetCount", 1), lambda: ours.try_set_count(1)),
        ("delete", lambda: theirs.call("delete"), ours.delete),
        ("delete again", lambda: theirs.call("delete"), ours.delete),
    )
    channel = "redisson_countdownlatch__channel__{N}"
    assert java == {
        "set": {"N": ("2", -1), "messages": [(channel, "1")]},
        "set again": {"N": ("2", -1)},
        "first": {"N": ("1", -1)},
        "second": {"messages": [(channel, "0")]},
        "third": {},
        "set once more": {"N": ("1", -1), "messages": [(channel, "1")]},
        "delete": {"messages": [(channel, "1")]},
        "delete again": {},
    }
    assert differences(java, mine) == {}
