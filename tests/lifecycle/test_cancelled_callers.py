"""What the server answers decides, whether or not the caller was cancelled meanwhile (issue 31)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Listener, Redisson, RedissonError
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import Permit
from tests.support.streams import answered


class Notes(Listener):
    """Takes down how acquisitions ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    def released(self, event: Any, /) -> None:
        self.ends.append("released")

    def lost(self, event: Any, /) -> None:
        self.ends.append(f"lost: {event.reason}")


@dataclass
class Scene:
    """Something that is held, and a call that ends or changes it.

    Attributes:
        thing: The lock or semaphore.
        leases: The leases.
        call: Makes the call.
    """

    thing: Any
    leases: list[Any]
    call: Callable[[], Awaitable[object]]


async def last_release(client: Redisson, kind: str) -> Scene:
    lock = locks(client)[kind]
    lease = await lock.acquire()
    return Scene(lock, [lease], lease.release)


async def inner_release(client: Redisson, kind: str) -> Scene:
    lock = locks(client)[kind]
    leases = [await lock.acquire(), await lock.acquire()]
    return Scene(lock, leases, leases[1].release)


async def extension(client: Redisson, kind: str) -> Scene:
    lock = locks(client)[kind]
    lease = await lock.acquire()
    return Scene(lock, [lease], lambda: lease.extend(20))


def locks(client: Redisson) -> dict[str, Any]:
    sides = client.get_read_write_lock("rw")
    return {
        "lock": client.get_lock("k"),
        "fair": client.get_fair_lock("fair"),
        "fenced": client.get_fenced_lock("fenced"),
        "read": sides.read_lock(),
        "write": sides.write_lock(),
        "multi": client.get_multi_lock(client.get_lock("one"), client.get_lock("two")),
        "red": client.get_red_lock(client.get_lock("only")),
    }


LOCKS = ["lock", "fair", "fenced", "read", "write", "multi", "red"]


async def permit_of_semaphore(client: Redisson, _: str) -> Scene:
    semaphore = client.get_semaphore("semaphore", 5)
    permit = await semaphore.acquire(2)
    return Scene(semaphore, [permit], permit.release)


async def some_units(client: Redisson, _: str) -> Scene:
    semaphore = client.get_semaphore("semaphore", 5)
    permit = await semaphore.acquire(3)
    return Scene(semaphore, [permit], lambda: semaphore.release(1))


async def units_of_several(client: Redisson, _: str) -> Scene:
    semaphore = client.get_semaphore("semaphore", 5)
    permits = [await semaphore.acquire() for _ in range(3)]
    return Scene(semaphore, permits, lambda: semaphore.release(3))


async def expirable_permit(client: Redisson, _: str) -> Scene:
    semaphore = client.get_permit_expirable_semaphore("semaphore", 5)
    permit = await semaphore.acquire()
    return Scene(semaphore, [permit], lambda: semaphore.release(permit.id))


async def many_permits(client: Redisson, _: str) -> Scene:
    semaphore = client.get_permit_expirable_semaphore("semaphore", 5)
    permits = await semaphore.acquire_many(3)
    return Scene(semaphore, permits, lambda: semaphore.release_many(permits))


async def extended_permit(client: Redisson, _: str) -> Scene:
    semaphore = client.get_permit_expirable_semaphore("semaphore", 5)
    permit = await semaphore.acquire()
    return Scene(semaphore, [permit], lambda: semaphore.update_lease_time(permit, 20))


Prepare = Callable[[Redisson, str], Awaitable[Scene]]
CALLS: dict[str, tuple[Prepare, str]] = {
    **{f"{kind}-release": (last_release, kind) for kind in LOCKS},
    **{f"{kind}-inner_release": (inner_release, kind) for kind in LOCKS},
    **{f"{kind}-extend": (extension, kind) for kind in LOCKS},
    "semaphore-permit": (permit_of_semaphore, ""),
    "semaphore-some_units": (some_units, ""),
    "semaphore-several_permits": (units_of_several, ""),
    "expirable_semaphore-permit": (expirable_permit, ""),
    "expirable_semaphore-release_many": (many_permits, ""),
    "expirable_semaphore-update_lease_time": (extended_permit, ""),
}

calls = pytest.mark.parametrize(("prepare", "kind"), CALLS.values(), ids=CALLS)


@calls
@pytest.mark.parametrize("answer", ["done", "refused", "gone"])
@pytest.mark.parametrize("listens", [False, True], ids=["", "listener"])
async def test_a_cancelled_call_leaves_what_an_awaited_one_leaves(
    prepare: Prepare,
    kind: str,
    answer: str,
    listens: bool,
    clients: ClientFactory,
    allow: Permit,
    redis: Redis,
) -> None:
    left: list[dict[str, Any]] = []
    for cancelled in (False, True):
        notes = Notes()
        client = clients(await allow(), lease_time=60, listener=notes if listens else None)
        scene = await prepare(client, kind)
        if answer == "refused":
            await allow("evalsha")
        elif answer == "gone":
            await redis.flushdb()
        calling = asyncio.ensure_future(scene.call())
        if cancelled:
            await asyncio.sleep(0)
            assert not calling.done()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
        else:
            with suppress(RedissonError):
                await calling
        await answered(client)
        await asyncio.sleep(0)
        statistics = client.statistics()
        left.append(
            {
                "ends": notes.ends,
                "leases": [(lease._state, lease.lost) for lease in scene.leases],
                "remaining": [lease.remaining > 40 for lease in scene.leases],
                "held here": scene.thing.statistics().held_leases,
                "held by the client": statistics.held_leases,
                # A composite that learns of one lost member releases the others.
                "losses": {why: bool(n) for why, n in statistics.losses_by_reason.items()},
                "on the server": await contents(redis),
            }
        )
        await allow()
        await client.aclose()
        await redis.flushdb()
    assert left[1] == left[0]


async def contents(redis: Redis) -> list[Any]:
    """Return the hold counts and the numbers of permits, whoever has them."""
    found: list[Any] = []
    for key in sorted(await redis.keys()):
        match await redis.type(key):
            case b"hash":
                found.append((key, sorted(await redis.hvals(key))))
            case b"zset":
                found.append((key, await redis.zcard(key)))
            case _ if key == b"semaphore":
                found.append((key, await redis.get(key)))
    return found
