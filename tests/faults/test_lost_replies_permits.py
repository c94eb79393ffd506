"""As `test_lost_replies`, for permits: none is made, and none is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Permit, PermitExpirableSemaphore, Redisson, Semaphore
from redisson_py.testing import FaultProxy
from tests.faults.losses import LOSSES, Loss
from tests.fixtures.client import ClientFactory
from tests.support.leases import renewed_at_once
from tests.support.lost_reply_calls import notice_soon
from tests.support.scripts.calls import ask
from tests.support.streams import answered

pytestmark = [pytest.mark.also("cluster", "cluster+sync"), pytest.mark.heart]

NAME = "semaphore"
TOTAL = 5
#: Of what the watchdog keeps: far from its end, however busy the machine is.
WATCHED = 12.0
LEASE = 30.0
EXTENDED = 20.0

Permits = list[Permit]


@dataclass(frozen=True)
class Use:
    """One call on a semaphore.

    Attributes:
        make: Makes it, with the permits held so far, which it brings up to date.
        before: How many permits each acquisition before it takes.
        held: How many are taken after it.
        total: How many there are after it, taken ones included.
        lease: Seconds of the newest lease after it, if it sets one.
        exists: Whether the semaphore is there before.
    """

    make: Callable[[Redisson, Any, Permits], Awaitable[None]]
    before: tuple[int, ...] = ()
    held: int = 0
    total: int = TOTAL
    lease: float | None = None
    exists: bool = True


# What both kinds have.


async def _release(client: Redisson, semaphore: Any, permits: Permits) -> None:
    await permits.pop().release()


async def _renew(client: Redisson, semaphore: Any, permits: Permits) -> None:
    await renewed_at_once(client)
    permits[0].check()


async def _extend(client: Redisson, semaphore: Any, permits: Permits) -> None:
    await permits[0].extend(EXTENDED)


async def _add(client: Redisson, semaphore: Any, permits: Permits) -> None:
    await semaphore.add_permits(3)


async def _take_away(client: Redisson, semaphore: Any, permits: Permits) -> None:
    await semaphore.add_permits(-4)


async def _set(client: Redisson, semaphore: Any, permits: Permits) -> None:
    assert await semaphore.try_set_permits(7)


async def _set_again(client: Redisson, semaphore: Any, permits: Permits) -> None:
    assert not await semaphore.try_set_permits(7)


BOTH = {
    "release": Use(_release, before=(1,)),
    "renewal": Use(_renew, before=(1,), held=1, lease=WATCHED),
    "extend": Use(_extend, before=(1,), held=1, lease=EXTENDED),
    "add": Use(_add, before=(1,), held=1, total=TOTAL + 3),
    "take away": Use(_take_away, before=(3,), held=3, total=TOTAL - 4),
    "set": Use(_set, total=7, exists=False),
    "set again": Use(_set_again, before=(2,), held=2),
}

# The plain one.


def _acquire(n: int) -> Callable[[Redisson, Any, Permits], Awaitable[None]]:
    async def make(client: Redisson, semaphore: Semaphore, permits: Permits) -> None:
        permits.append(await semaphore.acquire(n, timeout=10))

    return make


def _give(n: int) -> Callable[[Redisson, Any, Permits], Awaitable[None]]:
    async def make(client: Redisson, semaphore: Semaphore, permits: Permits) -> None:
        await semaphore.release(n)

    return make


async def _set_to(client: Redisson, semaphore: Semaphore, permits: Permits) -> None:
    await semaphore.set_permits(TOTAL - 3)


async def _delete(client: Redisson, semaphore: Semaphore, permits: Permits) -> None:
    assert await semaphore.delete()
    assert await semaphore.try_set_permits(7)


async def _drain(client: Redisson, semaphore: Semaphore, permits: Permits) -> None:
    assert await semaphore.drain() == TOTAL - 2


async def _first_use(client: Redisson, semaphore: Semaphore, permits: Permits) -> None:
    permits.append(await client.get_semaphore(NAME, TOTAL).acquire(2, timeout=10))


PLAIN = BOTH | {
    "acquire": Use(_acquire(1), before=(1,), held=2),
    "acquire several": Use(_acquire(3), before=(1,), held=4),
    "first use": Use(_first_use, held=2, exists=False),
    "partial release": Use(_give(1), before=(3,), held=2),
    "set_permits": Use(_set_to, before=(2,), held=2, total=TOTAL - 3),
    "delete": Use(_delete, total=7),
    "drain": Use(_drain, before=(2,), held=2, total=2),
}

# The one whose permits have ids.


async def _acquire_one(
    client: Redisson, semaphore: PermitExpirableSemaphore, permits: Permits
) -> None:
    permits.append(await semaphore.acquire(lease_time=LEASE, timeout=10))


async def _acquire_many(
    client: Redisson, semaphore: PermitExpirableSemaphore, permits: Permits
) -> None:
    permits.extend(await semaphore.acquire_many(3, lease_time=LEASE, timeout=10))


async def _release_by_id(
    client: Redisson, semaphore: PermitExpirableSemaphore, permits: Permits
) -> None:
    await semaphore.release(permits.pop().id)


async def _try_release(
    client: Redisson, semaphore: PermitExpirableSemaphore, permits: Permits
) -> None:
    assert await semaphore.try_release(permits.pop().id)


async def _release_many(
    client: Redisson, semaphore: PermitExpirableSemaphore, permits: Permits
) -> None:
    ids = [permit.id for permit in permits[-2:]]
    del permits[-2:]
    await semaphore.release_many(ids)


async def _update(client: Redisson, semaphore: PermitExpirableSemaphore, permits: Permits) -> None:
    assert await semaphore.update_lease_time(permits[-1].id, EXTENDED)


async def _set_all(client: Redisson, semaphore: PermitExpirableSemaphore, permits: Permits) -> None:
    await semaphore.set_permits(9)


EXPIRABLE = BOTH | {
    "acquire": Use(_acquire_one, before=(1,), held=2, lease=LEASE),
    "acquire several": Use(_acquire_many, before=(1,), held=4, lease=LEASE),
    "release by id": Use(_release_by_id, before=(2,), held=1),
    "try_release": Use(_try_release, before=(2,), held=1),
    "release several": Use(_release_many, before=(3,), held=1),
    "update_lease_time": Use(_update, before=(1,), held=1, lease=EXTENDED),
    "set_permits": Use(_set_all, before=(2,), held=2, total=9),
}


class _Side:
    """One semaphore, as the client behind the proxy uses it and as Redis has it."""

    def __init__(self, client: Redisson, redis: Redis, *, expirable: bool) -> None:
        self.redis = redis
        self.expirable = expirable
        self.semaphore: Any = (
            client.get_permit_expirable_semaphore(NAME) if expirable else client.get_semaphore(NAME)
        )
        self.permits = f"{{{NAME}}}:" + ("timeout" if expirable else "redisson_py:permits")

    async def take(self, n: int) -> Permits:
        """Take permits that the watchdog keeps."""
        if self.expirable:
            return list(await self.semaphore.acquire_many(n))
        return [await self.semaphore.acquire(n)]

    async def available(self) -> int:
        """Return Redisson's counter."""
        return int(await ask(self.redis, "GET", NAME) or 0)

    async def held(self) -> int:
        """Return how many permits are taken."""
        owners = await ask(self.redis, "ZRANGE", self.permits, 0, -1)
        if self.expirable:
            return len(owners)
        units = await ask(self.redis, "HGETALL", f"{{{NAME}}}:redisson_py:units")
        found = (
            dict(zip(units[::2], units[1::2], strict=True)) if isinstance(units, list) else units
        )
        assert {*found} == {*owners}
        return sum(map(int, found.values()))

    async def longest(self) -> float:
        """Return in how many seconds the last lease ends."""
        (last,) = await ask(self.redis, "ZRANGE", self.permits, -1, -1)
        ends_at = await ask(self.redis, "ZSCORE", self.permits, last)
        seconds, micros = await ask(self.redis, "TIME")
        return float(ends_at) / 1000 - int(seconds) - int(micros) / 1e6


@pytest.fixture
def far(clients: ClientFactory, link: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> Redisson:
    """A client behind the proxy, which soon notices that a reply is lost."""
    notice_soon(monkeypatch)
    return clients(link.url, lease_time=WATCHED)


CASES = [
    pytest.param(use, expirable, id=f"{kind}-{name}")
    for kind, uses, expirable in (("plain", PLAIN, False), ("with ids", EXPIRABLE, True))
    for name, use in uses.items()
]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize(("use", "expirable"), CASES)
async def test_the_effect_is_exactly_once(
    use: Use, expirable: bool, loss: Loss, far: Redisson, link: FaultProxy, redis: Redis
) -> None:
    side = _Side(far, redis, expirable=expirable)
    if use.exists:
        assert await side.semaphore.try_set_permits(TOTAL)
    await answered(far)
    permits = [permit for n in use.before for permit in await side.take(n)]
    async with loss(link):
        await use.make(far, side.semaphore, permits)
    assert await side.held() == use.held
    assert await side.available() == use.total - use.held
    if use.lease is not None:
        # Set once from now, and not added up.
        assert use.lease / 2 < await side.longest() <= use.lease
    for permit in permits:
        permit.check()
        await permit.release()
    assert await side.held() == 0
    assert await side.available() == use.total
    assert far.statistics().connections >= 2
