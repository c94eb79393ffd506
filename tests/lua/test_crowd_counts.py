"""What a crowd costs, in commands: each that leaves or comes costs as much as in a small one."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.support.counting import Counted
from tests.support.scripts.calls import LEASE, A, Scripts, ask, everything
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.fair import WAIT, FairScripts

#: What each crowd is compared with: longer than the queues whose scores are all kept.
SMALL, LARGE = 100, 1_000


@pytest.fixture
def fair(scripts: Scripts) -> FairScripts:
    """One fair lock."""
    return FairScripts(scripts)


async def queue_up(fair: FairScripts, size: int, alive_ms: int = LEASE) -> list[str]:
    """Have so many wait for a held lock; return them in order."""
    assert await fair.acquire(A, lease_ms=alive_ms) is None
    crowd = [f"client-b:{n}" for n in range(size)]
    for owner in crowd:
        assert await fair.acquire(owner, alive_ms=alive_ms) is not None
    return crowd


def leaving_order(crowd: list[str], order: str) -> list[str]:
    middle = len(crowd) // 2
    return {"head": crowd, "tail": crowd[::-1], "middle": crowd[middle:] + crowd[:middle]}[order]


async def cost(redis: Redis, fair: FairScripts, owners: list[str]) -> tuple[float, int]:
    """Have these leave; return the commands of each, and how many read a whole key."""
    async with Counted(redis) as counted:
        for owner in owners:
            assert await fair.leave(owner) is None
    scans = sum(counted.calls.get(name, 0) for name in ("zrange", "lrange", "hgetall"))
    return sum(counted.calls.values()) / len(owners), scans


@pytest.mark.parametrize("order", ["head", "middle", "tail"])
@pytest.mark.more
async def test_leaving_a_fair_queue_costs_the_same_in_any_crowd(
    fair: FairScripts, redis: Redis, order: str
) -> None:
    costs = []
    for size in (SMALL, LARGE):
        # Nobody dies meanwhile, however busy the machine is.
        crowd = await queue_up(fair, size, alive_ms=WAIT)
        costs.append(await cost(redis, fair, leaving_order(crowd, order)[: size - 70]))
        await redis.flushdb()
    (few, few_scans), (many, many_scans) = costs
    assert few_scans == many_scans == 0, "nobody reads the whole queue"
    # Those that leave at an end cost a command or two more than those in the middle.
    assert many <= few + 3


async def test_a_lock_passed_through_a_crowd_reads_no_whole_queue(
    fair: FairScripts, redis: Redis
) -> None:
    crowd = await queue_up(fair, 200)
    await fair.release(A)
    async with Counted(redis) as counted:
        for owner in crowd[:130]:
            assert await fair.acquire(owner) is None
            await fair.release(owner)
    assert "zrange" not in counted.calls
    assert "lrange" not in counted.calls
    await redis.flushdb()


async def test_the_dead_of_a_crowd_are_dropped_one_by_one(fair: FairScripts, redis: Redis) -> None:
    crowd = await queue_up(fair, 200)
    for owner in crowd[:130]:
        await fair.die(owner)
    await fair.end_lease()
    async with Counted(redis) as counted:
        assert await fair.acquire(crowd[130]) is None
    assert sum(counted.calls.values()) < 10 * 130
    assert await fair.queued() == crowd[131:]
    await redis.flushdb()


@pytest.mark.parametrize("order", ["head", "middle", "tail"])
async def test_a_waiter_of_redisson_behind_a_crowd_counts_from_the_right_score(
    fair: FairScripts, redis: Redis, order: str
) -> None:
    # Each position is worth one wait: that is the score Redisson would have left there.
    crowd = await queue_up(fair, 200)
    leaving = leaving_order(crowd, order)[:100]
    for owner in leaving:
        await fair.leave(owner)
    await fair.java_tries("java:1")
    moments = await fair.moments()
    expected = LEASE + 101 * WAIT
    assert expected - 20_000 < moments["java:1"] <= expected + 20_000
    head = (await fair.queued())[0]
    assert moments[head] <= LEASE + WAIT + 20_000
    await redis.flushdb()


async def test_with_a_waiter_of_redisson_every_score_is_kept(
    fair: FairScripts, redis: Redis
) -> None:
    crowd = await queue_up(fair, 100)
    await fair.java_tries("java:1")
    before = (await fair.moments())["java:1"]
    await fair.leave(crowd[50])
    after = (await fair.moments())["java:1"]
    assert before - after == pytest.approx(WAIT, abs=10_000)
    await redis.flushdb()


class TestManyPermits:
    IDS = b"".join(n.to_bytes(16, "big") for n in range(10_001))

    @pytest.fixture
    async def permits(self, scripts: Scripts) -> ExpirableScripts:
        permits = ExpirableScripts(scripts)
        await permits.start(20_000)
        return permits

    async def test_more_than_ten_thousand_are_refused(
        self, permits: ExpirableScripts, redis: Redis
    ) -> None:
        before = await everything(redis)
        for call in (permits.acquire, permits.release, permits.release_all):
            with pytest.raises(ResponseError, match="units must be at most 10000"):
                await call(self.IDS)
        assert await everything(redis) == before
        await redis.flushdb()

    async def test_ten_thousand_are_served(self, permits: ExpirableScripts, redis: Redis) -> None:
        ids = self.IDS[16:]
        assert await permits.acquire(ids) is None
        assert await permits.acquire(ids) is None
        assert (await permits.value(), await ask(redis, "ZCARD", permits.permits)) == (
            10_000,
            10_000,
        )
        assert await permits.release(ids) == 1
        assert await permits.value() == 20_000
        await redis.flushdb()
