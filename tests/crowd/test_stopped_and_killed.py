"""Processes in the queue of clients that stand still or are gone: the next one alive comes."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.crowd.conftest import NEVER, Join, Waiter, in_order
from tests.crowd.kinds import channel_of, holding, of_kind, one_by_one, one_by_one_queues
from tests.crowd.queue_look import QUEUE, lease_left, members, until_nobody_is_left
from tests.fixtures.measured import Measured
from tests.support.waiting import until_async

#: Each process takes a second to start on a busy machine.
pytestmark = pytest.mark.timeout(180)


def live(crowd: Sequence[Waiter], others: Collection[int]) -> list[Waiter]:
    """Return all but some of a crowd."""
    return [each for number, each in enumerate(crowd) if number not in others]


@pytest.mark.parametrize(
    "silent",
    [[0], [1], [0, 1], [0, 2], [0, 1, 2]],
    ids=["head", "second", "both", "head and third", "three"],
)
@one_by_one
async def test_stopped_waiters_are_passed_over(
    join: Join, client: Redisson, redis: Redis, measured: Measured, kind: str, silent: list[int]
) -> None:
    lease = await holding(client, kind).acquire()
    # Of the first two one must live; else a safety poll finds out.
    poll = 1.0 if {0, 1} <= set(silent) else NEVER
    crowd = [await join(kind, safety_poll=poll) for _ in range(6)]
    for number in silent:
        crowd[number].stop()
    released = time.monotonic_ns()
    await lease.release()
    async for waiter, granted in in_order(live(crowd, silent)):
        late = (granted - released) // 1000000
        measured(f"{kind}, {silent} stopped: ms to {crowd.index(waiter)}", late)
        released = await waiter.release()
    for number in silent:
        crowd[number].go_on()
        await crowd[number].granted()
        await crowd[number].release()
    await until_nobody_is_left(redis)


@pytest.mark.parametrize("stopped", [False, True], ids=["next lives", "next is stopped"])
@one_by_one_queues
async def test_clients_of_a_killed_process_are_no_burden(
    join: Join, client: Redisson, redis: Redis, measured: Measured, stopped: bool, kind: str
) -> None:
    lease = await holding(client, kind).acquire()
    dead = await join(kind, count=200)
    crowd = [await join(kind) for _ in range(3)]
    if stopped:
        crowd[0].stop()
    await dead.kill()
    released = time.monotonic_ns()
    await lease.release()
    async for waiter, granted in in_order(crowd[stopped:]):
        measured("ms behind 200 killed clients", (granted - released) / 1000000)
        released = await waiter.release()
    if stopped:
        crowd[0].go_on()
        await crowd[0].granted()
        await crowd[0].release()
    await until_nobody_is_left(redis)


@pytest.mark.parametrize(
    ("killed", "stopped"),
    [([], []), ([0], []), ([], [0]), ([0, 1], []), ([0], [1]), ([0, 1, 2], [])],
    ids=["", "head too", "head stopped", "two", "one dead, one stopped", "three"],
)
@one_by_one
async def test_the_next_one_comes_when_the_lease_of_a_killed_holder_ends(
    join: Join,
    client: Redisson,
    redis: Redis,
    measured: Measured,
    killed: list[int],
    stopped: list[int],
    kind: str,
) -> None:
    lease = await of_kind(client, kind).acquire()
    # Its lease is short, so it is granted it when all others wait.
    holder = await join(kind, lease_time=2.0)
    poll = 1.0 if {0, 1} <= {*killed, *stopped} else NEVER
    crowd = [await join(kind, safety_poll=poll) for _ in range(5)]
    await lease.release()
    await holder.granted()
    for number in killed:
        await crowd[number].kill()
    for number in stopped:
        crowd[number].stop()
    await holder.kill()
    ends = time.monotonic_ns() + 1000000 * await lease_left(redis, kind)
    async for waiter, granted in in_order(live(crowd, (*killed, *stopped))):
        late = (granted - ends) / 1000000
        measured(f"ms after the lease, {killed} dead, {stopped} stopped", late)
        ends = await waiter.release()
    for number in stopped:
        crowd[number].go_on()
        await crowd[number].granted()
        await crowd[number].release()
    await until_nobody_is_left(redis)
    assert await members(redis) == []


@pytest.mark.parametrize("behind", ["read", "write"])
async def test_a_stopped_reader_keeps_nobody_waiting(
    join: Join, client: Redisson, redis: Redis, measured: Measured, behind: str
) -> None:
    lease = await holding(client, "read").acquire()
    stopped = await join("read")
    others = [await join(behind) for _ in range(2)]
    stopped.stop()
    released = time.monotonic_ns()
    await lease.release()
    async for waiter, granted in in_order(others):
        measured(f"{behind} behind a stopped reader: ms", (granted - released) / 1e6)
        if behind == "write":
            released = await waiter.release()
    if behind == "read":
        for waiter in others:
            await waiter.release()
    stopped.go_on()
    await stopped.granted()
    await stopped.release()
    await until_nobody_is_left(redis)


async def test_readers_of_a_killed_process_are_no_burden(
    join: Join, client: Redisson, redis: Redis, measured: Measured
) -> None:
    lease = await holding(client, "read").acquire()
    dead = await join("read", count=200)
    crowd = [await join("write"), await join("read"), await join("read")]
    await dead.kill()
    released = time.monotonic_ns()
    await lease.release()
    late = (await crowd[0].granted() - released) / 1e6
    measured("ms to a writer behind 200 killed readers", late)
    await crowd[0].release()
    for waiter in crowd[1:]:
        await waiter.granted()
    for waiter in crowd[1:]:
        await waiter.release()
    await until_nobody_is_left(redis)


@one_by_one_queues
async def test_a_stopped_head_is_passed_over_while_ours_make_up(
    join: Join, client: Redisson, redis: Redis, measured: Measured, kind: str
) -> None:
    """Redisson's clients, who had more than their share, are not woken then."""
    async with redis.pubsub() as java:
        await java.subscribe(channel_of(kind))
        lease = await holding(client, kind).acquire()
        crowd = [await join(kind) for _ in range(3)]
        await redis.zadd(QUEUE, {"<1": 4_000_000_000_000_100})
        # The first two have heard nothing for so long that they watch.
        await until_async(lambda: watched(redis, kind, 3))
        crowd[0].stop()
        left = await lease_left(redis, kind)
        released = time.monotonic_ns()
        await lease.release()
        late = (await crowd[1].granted() - released) / 1000000
        measured(f"{kind}, head stopped while ours make up: ms to the next", late)
        # Otherwise it looks when the lease would have ended.
        assert late < left / 2
        await crowd[1].release()
        await crowd[2].granted()
        await crowd[2].release()
        crowd[0].go_on()
        await crowd[0].granted()
        await crowd[0].release()
        await until_nobody_is_left(redis)


async def watched(redis: Redis, kind: str, count: int) -> bool:
    """Return whether so many listen to all releases."""
    ((_, listening),) = await redis.pubsub_numsub(channel_of(kind))
    return bool(listening == count)
