"""The same steps by Redisson and by us leave the same keys, expiries and messages.

The steps are those of the golden vectors in tests/lua. Each test ends with the complete list of
what differs, Redisson's first. Times are seconds left, rounded up to fifty.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
import pytest_asyncio

from redisson_py import Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.java import JavaObject
from tests.interop.keyspace import Keyspace
from tests.interop.same_steps import (
    JavaLocks,
    Keyspaces,
    Locks,
    Notes,
    OurLocks,
    Story,
    acquire_first,
    both,
    differences,
)
from tests.interop.tasks import Tasks
from tests.support.waiting import until_async

pytestmark = pytest.mark.also("interop-older", "interop-cluster")

QUEUE, MOMENTS = "redisson_lock_queue:{N}", "redisson_lock_timeout:{N}"
CHANNEL = "redisson_rwlock:{N}"
#: Redisson reads 0 there too, and wakes; a client of ours that overhears it knows that the first
#: client of ours that waits was called.
FREED = {"messages": tuple([("redisson_lock__channel:{N}", said)] for said in ("0", "00"))}
#: The key of the first read of `a`.
MINE = "{N}:A:rwlock_timeout:1"


@pytest_asyncio.fixture
async def redisson(redissons: RedissonFactory) -> JavaObject:
    """Its leases are so long that a step may take a while."""
    return await redissons(lockWatchdogTimeout=300_000)


@pytest_asyncio.fixture
async def client(clients: ClientFactory) -> Redisson:
    """As Redisson's."""
    client = clients(lease_time=300)
    await acquire_first(client)
    return client


async def lock_story(locks: Locks, keyspace: Keyspace) -> Notes:
    notes: Notes = {}
    assert await locks.acquire("a")
    await keyspace.meet("A")
    notes["a holds"] = await keyspace.look()
    assert not await locks.acquire("b")
    assert await locks.acquire("a")
    notes["a holds twice"] = await keyspace.look()
    assert await locks.release("a")
    notes["a let go once"] = await keyspace.look()
    assert await locks.release("a")
    notes["a let go twice"] = await keyspace.look()
    assert not await locks.release("a")
    notes["a is refused"] = await keyspace.look()
    assert await locks.acquire("b", lease=600)
    await keyspace.meet("B")
    notes["b holds with a lease"] = await keyspace.look()
    assert await locks.force()
    notes["b was forced out"] = await keyspace.look()
    assert not await locks.force()
    assert not await locks.release("b")
    notes["nobody held"] = await keyspace.look()
    return notes


async def test_lock(
    keyspaces: Keyspaces, redisson: JavaObject, client: Redisson, tasks: Tasks
) -> None:
    java, ours = await both(
        lock_story,
        keyspaces,
        JavaLocks(lock=await redisson.get("getLock", "of-java")),
        OurLocks(tasks, lock=client.get_lock("of-us")),
    )
    assert java["a holds twice"] == {"N": ({"A": "2"}, 300)}
    assert java["a let go twice"] == {"messages": [("redisson_lock__channel:{N}", "0")]}
    assert differences(java, ours) == {"a let go twice": FREED, "b was forced out": FREED}


async def lease_story(locks: Locks, keyspace: Keyspace) -> Notes:
    notes: Notes = {}
    assert await locks.acquire("a", lease=600)
    await keyspace.meet("A")
    assert await locks.acquire("a", lease=200)
    notes["a shorter lease"] = await keyspace.look()
    assert await locks.acquire("a", lease=900)
    notes["a longer lease"] = await keyspace.look()
    assert await locks.release("a")
    notes["the longer one ended"] = await keyspace.look()
    assert await locks.release("a")
    assert await locks.release("a")
    notes["all ended"] = await keyspace.look()
    return notes


async def test_leases_of_reentries(
    keyspaces: Keyspaces, redisson: JavaObject, client: Redisson, tasks: Tasks
) -> None:
    java, ours = await both(
        lease_story,
        keyspaces,
        JavaLocks(lock=await redisson.get("getLock", "of-java")),
        OurLocks(tasks, lock=client.get_lock("of-us")),
    )
    sooner = ("redisson_lock__channel:{N}", "0")
    assert differences(java, ours) == {
        # A re-entry never shortens what the outer hold relies on.
        "a shorter lease": {"N": (({"A": "2"}, 200), ({"A": "2"}, 600))},
        # Redisson's lock object remembers the last lease it was asked for; ours what is left needs.
        # And who waits is told that the lease ends sooner.
        "the longer one ended": {
            "N": (({"A": "2"}, 900), ({"A": "2"}, 600)),
            "messages": (None, [sooner]),
        },
        "all ended": FREED,
    }


async def test_fenced_lock(
    keyspaces: Keyspaces, redisson: JavaObject, client: Redisson, tasks: Tasks
) -> None:
    java, ours = await both(
        lock_story,
        keyspaces,
        JavaLocks(lock=await redisson.get("getFencedLock", "of-java")),
        OurLocks(tasks, lock=client.get_fenced_lock("of-us")),
    )
    # Ours begin where the server's clock is and are taken 64 at a time, to be passed on here.
    key = "redisson_lock_token:{N}"
    tokens = [[int(note.pop(key)[0]) for note in notes.values()] for notes in (java, ours)]
    assert tokens[0] == [1, 2, 2, 2, 2, 3, 3, 3]
    first, second = tokens[1][0], tokens[1][-1]
    assert tokens[1] == [first] * 5 + [second] * 3
    assert second >= first + 64
    assert differences(java, ours) == {"a let go twice": FREED, "b was forced out": FREED}


async def fair_story(locks: Locks, keyspace: Keyspace) -> Notes:
    notes: Notes = {}

    async def waits(who: str, seconds: float | None = None) -> Awaitable[Any]:
        before = await keyspace.waiting()
        waiting = locks.wait(who, seconds)

        async def queued() -> bool:
            return await keyspace.waiting() > before

        await until_async(queued)
        await keyspace.meet(who.upper())
        return waiting

    assert await locks.acquire("a")
    await keyspace.meet("A")
    b = await waits("b")
    c = await waits("c", 3)
    d = await waits("d")
    notes["three wait"] = await keyspace.look()
    assert not await locks.acquire("e")
    notes["e was refused"] = await keyspace.look()
    assert not await c
    notes["c gave up"] = await keyspace.look()
    assert await locks.release("a")
    await b
    notes["b holds"] = await keyspace.look()
    assert not await locks.acquire("e")
    assert await locks.force()
    await d
    notes["b was forced out, d holds"] = await keyspace.look()
    assert not await locks.release("b")
    assert await locks.release("d")
    assert not await locks.force()
    notes["all gone"] = await keyspace.look()
    return notes


async def test_fair_lock(
    keyspaces: Keyspaces, redisson: JavaObject, client: Redisson, tasks: Tasks
) -> None:
    java, ours = await both(
        fair_story,
        keyspaces,
        JavaLocks(lock=await redisson.get("getFairLock", "of-java")),
        OurLocks(tasks, lock=client.get_fair_lock("of-us")),
    )
    assert java["three wait"] == {
        "N": ({"A": "1"}, 300),
        QUEUE: (["B", "C", "D"], -1),
        MOMENTS: ([("B", 600), ("C", 650), ("D", 950)], -1),
    }
    assert java["c gave up"][MOMENTS] == ([("B", 600), ("D", 900)], -1)
    assert java["b holds"] == {
        "N": ({"B": "1"}, 300),
        QUEUE: (["D"], -1),
        MOMENTS: ([("D", 600)], -1),
        "messages": [("redisson_lock__channel:{N}:B", "0")],
    }
    assert differences(java, ours) == {}
    assert keyspaces[1].beside == {
        f"redisson_py:{each}" for each in ("waiters", "tombstone", "receipt")
    }


async def read_story(locks: Locks, keyspace: Keyspace) -> Notes:
    notes: Notes = {}
    assert await locks.acquire("a", "read", lease=300)
    await keyspace.meet("A")
    assert await locks.acquire("a", "read", lease=50)
    notes["a reads twice"] = await keyspace.look()
    assert await locks.acquire("b", "read", lease=600)
    await keyspace.meet("B")
    assert not await locks.acquire("c", "write")
    notes["b reads too"] = await keyspace.look()
    assert await locks.release("a", "read")
    notes["a let go once"] = await keyspace.look()
    assert await locks.release("b", "read")
    notes["b let go"] = await keyspace.look()
    assert await locks.release("a", "read")
    await locks.release("a", "write")
    notes["a let go"] = await keyspace.look()
    assert await locks.acquire("a", "read")
    await keyspace.meet("A")
    assert not await locks.force("write")
    notes["a reads again"] = await keyspace.look()
    assert await locks.force("read")
    notes["a was forced out"] = await keyspace.look()
    await locks.release("a", "read")
    assert not await locks.force("read")
    notes["nobody reads"] = await keyspace.look()
    return notes


async def write_story(locks: Locks, keyspace: Keyspace) -> Notes:
    notes: Notes = {}
    assert await locks.acquire("a", "write", lease=300)
    await keyspace.meet("A")
    assert not await locks.acquire("b", "write")
    assert not await locks.acquire("b", "read")
    notes["a writes"] = await keyspace.look()
    assert await locks.acquire("a", "write", lease=300)
    notes["a writes twice"] = await keyspace.look()
    assert await locks.acquire("a", "read", lease=900)
    notes["a reads too"] = await keyspace.look()
    assert await locks.release("a", "write")
    notes["a writes once"] = await keyspace.look()
    assert not await locks.force("read")
    assert await locks.release("a", "write")
    notes["a only reads"] = await keyspace.look()
    assert await locks.release("a", "read")
    notes["a let go"] = await keyspace.look()
    assert await locks.acquire("b", "write")
    await keyspace.meet("B")
    assert await locks.release("b", "write")
    notes["b wrote"] = await keyspace.look()
    assert await locks.acquire("b", "write")
    await keyspace.meet("B")
    assert await locks.acquire("b", "read")
    assert await locks.force("write")
    notes["b was forced out"] = await keyspace.look()
    await locks.release("b", "write")
    await locks.release("b", "read")
    notes["nobody writes"] = await keyspace.look()
    return notes


async def both_sides(
    keyspaces: Keyspaces, redisson: JavaObject, client: Redisson, tasks: Tasks, story: Story
) -> tuple[Notes, Notes]:
    lock = await redisson.get("getReadWriteLock", "of-java")
    sides = {"read": await lock.get("readLock"), "write": await lock.get("writeLock")}
    mine = client.get_read_write_lock("of-us")
    ours = OurLocks(tasks, read=mine.read_lock(), write=mine.write_lock())
    return await both(story, keyspaces, JavaLocks(**sides), ours)


def called(message: tuple[str, str]) -> tuple[str, str]:
    """Return what we announce where Redisson announces a message."""
    channel, number = message
    return channel, f"0{number}"


async def test_read_lock(
    keyspaces: Keyspaces, redisson: JavaObject, client: Redisson, tasks: Tasks
) -> None:
    java, ours = await both_sides(keyspaces, redisson, client, tasks, read_story)
    assert java["b reads too"] == {
        "N": ({"A": "2", "B": "1", "mode": "read"}, 600),
        "{N}:A:rwlock_timeout:1": ("1", 300),
        "{N}:A:rwlock_timeout:2": ("1", 50),
        "{N}:B:rwlock_timeout:1": ("1", 600),
    }
    last, woken = (CHANNEL, "0"), (CHANNEL, "1")
    assert differences(java, ours) == {
        # We refuse to release what is not held without asking; Redisson asks, and wakes waiters.
        # The zero before ours says that it has called those that stand in the queue of clients.
        "a let go": {"messages": ([last, woken], [called(last)])},
        # Writers wait for the longest of the readers: we tell them that it has left.
        "b let go": {"messages": (None, [last])},
        "nobody reads": {"messages": ([last], None)},
        # Our reader that was forced out takes its leases away, and finds nothing to let go.
        "a was forced out": {"messages": ([last], [called(last), last])},
    }


async def test_write_lock(
    keyspaces: Keyspaces, redisson: JavaObject, client: Redisson, tasks: Tasks
) -> None:
    java, ours = await both_sides(keyspaces, redisson, client, tasks, write_story)
    twice = {"A:write": "2", "mode": "write"}
    reads_too = {"A": "1", "A:write": "2", "mode": "write"}
    last, woken = (CHANNEL, "0"), (CHANNEL, "1")
    assert differences(java, ours) == {
        # Redisson adds the lease of a re-entry to what is left; we take the longer one.
        "a writes twice": {"N": ((twice, 600), (twice, 300))},
        # Our read lasts no longer than the write hold, with a lease of its own, that it is under.
        "a reads too": {"N": ((reads_too, 900), (reads_too, 300)), MINE: (("1", 900), ("1", 300))},
        "a writes once": {MINE: (("1", 900), ("1", 300))},
        # We tell those who may read now, with a message that Redisson ignores.
        # And from then on our read has the lease that it asked for.
        "a only reads": {
            "N": (({"A": "1", "mode": "read"}, 300), ({"A": "1", "mode": "read"}, 900)),
            "messages": (None, [(CHANNEL, "02")]),
        },
        "a let go": {"messages": ([last], [called(last)])},
        "b wrote": {"messages": ([woken], [called(woken)])},
        # As with the readers: its read is taken out, and then what that may have left.
        "b was forced out": {"messages": ([woken], [called(woken), last, woken])},
        "nobody writes": {"messages": ([woken, last], None)},
    }
