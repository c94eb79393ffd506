"""How long a lease lasts, here and on the server; renewals at once."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from redis.asyncio import Redis

from redisson_py import Lease, LeaseLostError, Redisson
from redisson_py._time import now
from tests.support.cluster_look import master_of
from tests.support.waiting import until

T = TypeVar("T")


async def granted_in_time(acquire: Callable[[], Awaitable[T]]) -> T:
    """Acquire for so short that a busy machine may hear of the grant too late: then again."""
    while True:
        with suppress(LeaseLostError):
            return await acquire()


async def assert_ends_in_time(lease: Lease, redis: Redis, key: str) -> None:
    """Fail unless a lease ends here before Redis ends it, by this machine's one clock.

    Both ends are read while they are ahead, so no delay of a busy machine matters.
    """
    ends = time.time() + lease.remaining
    both: Any = (await master_of(redis, key)).pipeline(transaction=True)
    (seconds, microseconds), left = await both.time().pttl(key).execute()
    assert ends < seconds + microseconds / 1e6 + left / 1000, "the server let others in first"


def assert_left(left: float | None, lease_time: float, since: float) -> None:
    """Fail unless a lease of `lease_time` seconds that was set after `since` has `left` of them.

    One second less is accepted, and the time that has passed: a busy machine may be slow.
    """
    assert left is not None
    assert lease_time - 1 - (now() - since) < left <= lease_time


def renew_now(client: Redisson) -> None:
    """Have the watchdog renew what a client holds at once, and not after a third of the lease.

    So a test need not wait, and can use a lease that is longer than any delay of a busy machine.
    """
    client._watchdog.ask_now(lambda key: True)


def all_due_now(client: Redisson) -> None:
    """Make the next renewal of everything that a client holds due, as if its period had passed.

    So it does not matter how far apart the holds were acquired.
    """
    watchdog, moment = client._watchdog, now()
    for hold in watchdog.holds:
        watchdog._schedule.put(hold, moment)
    watchdog._arm(moment)


async def renewed_at_once(client: Redisson, times: int = 1) -> None:
    """Have a client renew what it holds this many times, now."""
    for _ in range(times):
        following = client.statistics().renewals + 1
        renew_now(client)
        await until(lambda wanted=following: client.statistics().renewals >= wanted)  # type: ignore[misc]
