"""A grant that is asked for again, and each renewal, write: else a WAIT on a new connection says
yes at once.

On Valkey WAIT covers what its own connection wrote. After a connection broke, the repeated script
finds its grant there, perhaps one that no replica has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import pytest_asyncio

from tests.support.scripts.calls import LEASE, A, Scripts
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.scripts.read_write import SideScripts
from tests.topology.conftest import Pair

#: So many repetitions that some come in the millisecond of the one before.
TIMES = 30


#: Runs a script with a lease, in milliseconds.
Ask = Callable[[Scripts, int], Awaitable[object]]


@pytest_asyncio.fixture
async def scripts(pair: Pair) -> Scripts:
    """The scripts on the master of a pair."""
    return await Scripts.on(pair.redis)


async def offset(pair: Pair) -> int:
    """Return how much the master has written for its replicas."""
    return int((await pair.redis.info("replication"))["master_repl_offset"])


ACQUIRE: dict[str, Ask] = {
    "plain": lambda scripts, ms: LockScripts(scripts).acquire(lease_ms=ms),
    "again": lambda scripts, ms: LockScripts(scripts).acquire(holds=2, lease_ms=ms),
    "fenced": lambda scripts, ms: LockScripts(scripts, fenced=True).acquire_fenced(lease_ms=ms),
    "fair": lambda scripts, ms: FairScripts(scripts).acquire(lease_ms=ms),
    "read": lambda scripts, ms: SideScripts(scripts, "read").acquire(lease_ms=ms),
    "write": lambda scripts, ms: SideScripts(scripts, "write").acquire(lease_ms=ms),
    "semaphore": lambda scripts, ms: SemaphoreScripts(scripts).acquire(lease_ms=ms, start_units=2),
    "expirable": lambda scripts, ms: ExpirableScripts(scripts).acquire(
        b"0123456789abcdef", lease_ms=ms, start_units=2
    ),
}


@pytest.mark.parametrize("kind", ACQUIRE)
@pytest.mark.parametrize(
    "shorter", [pytest.param(0, id="at-once"), pytest.param(5000, id="clock-set-back")]
)
async def test_a_repeated_grant_writes(
    kind: str, shorter: int, scripts: Scripts, pair: Pair
) -> None:
    acquire = ACQUIRE[kind]
    if kind == "again":
        await ACQUIRE["plain"](scripts, LEASE)
    granted = await acquire(scripts, LEASE)
    before = await offset(pair)
    assert before > 0
    for _ in range(TIMES):
        # What a master whose clock is behind finds after a failover ends later than it would.
        reply = await acquire(scripts, LEASE - shorter)
        assert reply == granted
        now = await offset(pair)
        assert now > before
        before = now


def renew_fenced(scripts: Scripts, lease_ms: int) -> Awaitable[object]:
    locks = LockScripts(scripts, fenced=True)
    keys = [locks.key, locks.token_key]
    return scripts.run_batch("fenced_lock.renew", keys, [A], lease_ms=lease_ms, idle_ms=LEASE)


#: What is renewed, and how.
RENEW: dict[str, tuple[str, Ask]] = {
    "plain": ("plain", lambda scripts, ms: LockScripts(scripts).renew(lease_ms=ms)),
    "write": ("write", lambda scripts, ms: SideScripts(scripts, "write").renew(lease_ms=ms)),
    "fenced": ("fenced", renew_fenced),
    "read": ("read", lambda scripts, ms: SideScripts(scripts, "read").renew(lease_ms=ms)),
    "permit": ("semaphore", lambda scripts, ms: SemaphoreScripts(scripts).renew(A, ms)),
    "permit that is kept": (
        "semaphore",
        lambda scripts, ms: SemaphoreScripts(scripts).renew(A, ms, idle_ms=LEASE),
    ),
}


@pytest.mark.parametrize(("kind", "renew"), RENEW.values(), ids=RENEW)
async def test_a_renewal_writes_although_the_lease_is_longer_already(
    kind: str, renew: Ask, scripts: Scripts, pair: Pair
) -> None:
    await ACQUIRE[kind](scripts, 10 * LEASE)
    for _ in range(TIMES):
        before = await offset(pair)
        assert await renew(scripts, LEASE) in (1, [1])
        assert await offset(pair) > before
