"""As `test_lost_replies`, for permits: none is made, and none is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import Permit, Redisson, Semaphore
from redisson_py.testing import FaultProxy
from tests.faults.conftest import LOSSES, Loss
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
        make: Makes it, with the permits held so far, of which it takes what it gives back.
        before: How many permits each acquisition before it takes.
        held: How many are taken after it.
        total: How many there are after it, taken ones included.
        lease: Seconds of the newest lease after it, if it sets one.
        exists: Whether the semaphore is there before.
        answer: What it returns, if that is no permit.
    """

    make: Callable[[Redisson, Any, Permits], Awaitable[object]]
    before: tuple[int, ...] = ()
    held: int = 0
    total: int = TOTAL
    lease: float | None = None
    exists: bool = True
    answer: object = None


# What both kinds have.


async def _renew(client: Redisson, semaphore: Any, permits: Permits) -> None:
    await renewed_at_once(client)
    permits[0].check()


BOTH = {
    "release": Use(lambda client, semaphore, permits: permits.pop().release(), before=(1,)),
    "renewal": Use(_renew, before=(1,), held=1, lease=WATCHED),
    "extend": Use(
        lambda client, semaphore, permits: permits[0].extend(EXTENDED),
        before=(1,),
        held=1,
        lease=EXTENDED,
    ),
    "add": Use(
        lambda client, semaphore, permits: semaphore.add_permits(3),
        before=(1,),
        held=1,
        total=TOTAL + 3,
    ),
    "take away": Use(
        lambda client, semaphore, permits: semaphore.add_permits(-4),
        before=(3,),
        held=3,
        total=TOTAL - 4,
    ),
    "set": Use(
        lambda client, semaphore, permits: semaphore.try_set_permits(7),
        total=7,
        exists=False,
        answer=True,
    ),
    "set again": Use(
        lambda client, semaphore, permits: semaphore.try_set_permits(7),
        before=(2,),
        held=2,
        answer=False,
    ),
    "set_permits": Use(
        lambda client, semaphore, permits: semaphore.set_permits(TOTAL - 3),
        before=(2,),
        held=2,
        total=TOTAL - 3,
    ),
}

# The plain one.


async def _delete(client: Redisson, semaphore: Semaphore, permits: Permits) -> None:
    assert await semaphore.delete()
    assert await semaphore.try_set_permits(7)


PLAIN = BOTH | {
    "acquire": Use(
        lambda client, semaphore, permits: semaphore.acquire(1, timeout=10), before=(1,), held=2
    ),
    "acquire several": Use(
        lambda client, semaphore, permits: semaphore.acquire(3, timeout=10), before=(1,), held=4
    ),
    "first use": Use(
        lambda client, semaphore, permits: client.get_semaphore(NAME, TOTAL).acquire(2, timeout=10),
        held=2,
        exists=False,
    ),
    "partial release": Use(
        lambda client, semaphore, permits: semaphore.release(1), before=(3,), held=2
    ),
    "delete": Use(_delete, total=7),
    "drain": Use(
        lambda client, semaphore, permits: semaphore.drain(),
        before=(2,),
        held=2,
        total=2,
        answer=TOTAL - 2,
    ),
}

# The one whose permits have ids.

EXPIRABLE = BOTH | {
    "acquire": Use(
        lambda client, semaphore, permits: semaphore.acquire(lease_time=LEASE, timeout=10),
        before=(1,),
        held=2,
        lease=LEASE,
    ),
    "acquire several": Use(
        lambda client, semaphore, permits: semaphore.acquire_many(3, lease_time=LEASE, timeout=10),
        before=(1,),
        held=4,
        lease=LEASE,
    ),
    "release by id": Use(
        lambda client, semaphore, permits: semaphore.release(permits.pop().id),
        before=(2,),
        held=1,
    ),
    "try_release": Use(
        lambda client, semaphore, permits: semaphore.try_release(permits.pop().id),
        before=(2,),
        held=1,
        answer=True,
    ),
    "release several": Use(
        lambda client, semaphore, permits: semaphore.release_many(
            [permits.pop().id, permits.pop().id]
        ),
        before=(3,),
        held=1,
    ),
    "update_lease_time": Use(
        lambda client, semaphore, permits: semaphore.update_lease_time(permits[-1].id, EXTENDED),
        before=(1,),
        held=1,
        lease=EXTENDED,
        answer=True,
    ),
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
        answer = await use.make(far, side.semaphore, permits)
    if isinstance(answer, Permit | list):
        permits += [answer] if isinstance(answer, Permit) else answer
    else:
        assert answer == use.answer
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
