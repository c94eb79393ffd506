"""What the server answers decides, whether or not the caller was cancelled meanwhile (issue 31)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
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


MAKES: dict[str, Callable[[Redisson], Any]] = {
    "lock": lambda client: client.get_lock("k"),
    "fair": lambda client: client.get_fair_lock("fair"),
    "fenced": lambda client: client.get_fenced_lock("fenced"),
    "read": lambda client: client.get_read_write_lock("rw").read_lock(),
    "write": lambda client: client.get_read_write_lock("rw").write_lock(),
    "multi": lambda client: client.get_multi_lock(client.get_lock("one"), client.get_lock("two")),
    "red": lambda client: client.get_red_lock(client.get_lock("only")),
    "semaphore": lambda client: client.get_semaphore("semaphore", 5),
    "permits": lambda client: client.get_permit_expirable_semaphore("semaphore", 5),
}
LOCKS = list(MAKES)[:-2]

#: How much is acquired, one after the other, and the call that ends or changes some of it.
Scene = tuple[str, list[int], Callable[[Any, list[Any]], Awaitable[object]]]
CALLS: dict[str, Scene] = {
    **{f"{kind}-release": (kind, [1], lambda _, held: held[0].release()) for kind in LOCKS},
    **{f"{kind}-inner": (kind, [1, 1], lambda _, held: held[1].release()) for kind in LOCKS},
    **{f"{kind}-extend": (kind, [1], lambda _, held: held[0].extend(20)) for kind in LOCKS},
    "semaphore-permit": ("semaphore", [2], lambda _, held: held[0].release()),
    "semaphore-some_units": ("semaphore", [3], lambda it, _: it.release(1)),
    "semaphore-several_permits": ("semaphore", [1, 1, 1], lambda it, _: it.release(3)),
    "permits-release": ("permits", [1], lambda it, held: it.release(held[0].id)),
    "permits-release_many": ("permits", [1, 1, 1], lambda it, held: it.release_many(held)),
    "permits-lease_time": ("permits", [1], lambda it, held: it.update_lease_time(held[0], 20)),
}


@pytest.mark.parametrize("scene", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("answer", ["done", "refused", "gone"])
@pytest.mark.parametrize("listens", [False, True], ids=["", "listener"])
async def test_a_cancelled_call_leaves_what_an_awaited_one_leaves(
    scene: Scene,
    answer: str,
    listens: bool,
    clients: ClientFactory,
    allow: Permit,
    redis: Redis,
) -> None:
    kind, amounts, call = scene
    left: list[dict[str, Any]] = []
    for cancelled in (False, True):
        notes = Notes()
        client = clients(await allow(), lease_time=60, listener=notes if listens else None)
        thing = MAKES[kind](client)
        held = [await (thing.acquire(n) if n > 1 else thing.acquire()) for n in amounts]
        if answer == "refused":
            await allow("evalsha")
        elif answer == "gone":
            await redis.flushdb()
        calling = asyncio.ensure_future(call(thing, held))
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
                "leases": [(lease._state, lease.lost) for lease in held],
                "remaining": [lease.remaining > 40 for lease in held],
                "held here": thing.statistics().held_leases,
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
