"""Random walks by both ways of a script: whatever the state, they answer, leave and tell the same.

Between the steps of the holders others change the records: Redisson's clients, operators, eviction.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.lua.test_golden_vectors import listening
from tests.lua.test_short_ways import (
    KINDS,
    LEASE,
    LOCKS,
    Step,
    Subject,
    acquire,
    ends,
    ids,
    java_waits,
    release,
    send,
    trace,
)
from tests.support.scripts.calls import TOMBSTONE, A, B, C, Scripts

OWNERS = (A, B, C)
CROWD = [word for number in range(15) for word in (f"reader-{number}", 1)]
WRITERS = "{k}:redisson_py:writers"


def answered(step: Step) -> Step:
    """Return a step whose refusal is its answer."""

    async def take(subject: Subject, redis: Redis) -> Any:
        try:
            return await step(subject, redis)
        except ResponseError as error:
            return str(error)

    return take


def of_a_lock(chance: Random, owner: str) -> Step:
    """Return a change that is not ours to the records of a lock."""
    reader = f"{{k}}:{owner}:rwlock_timeout:1"
    field = chance.choice((owner, f"{owner}:write"))
    return chance.choice(
        [
            send("DEL", "k"),
            send("PERSIST", "k"),
            send("PEXPIRE", "k", chance.choice((1, 3)) * LEASE),
            send("HSET", "k", "mode", chance.choice(("read", "write"))),
            send("HSET", "k", *CROWD),
            send("HINCRBY", "k", field, 1),
            send("HSET", "k", field, chance.choice(("many", "02"))),
            send("HDEL", "k", chance.choice((field, "mode"))),
            send("DEL", reader),
            send("PEXPIRE", reader, chance.choice((1, 3)) * LEASE),
            send("PERSIST", reader),
            ends(WRITERS, "writer", chance.choice((-1, 1))),
            send("DEL", WRITERS),
            send("SET", f"{{k}}:redisson_py:tombstone:{field}", 1),
            send("DEL", f"{{k}}:redisson_py:tombstone:{field}"),
            java_waits,
            send("DEL", "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}"),
        ]
    )


def of_a_semaphore(chance: Random, owner: str) -> Step:
    """Return a change that is not ours to the records of a semaphore."""
    permit = ids(owner, [0])
    permits, member = chance.choice(
        (("{semaphore}:redisson_py:permits", owner), ("{semaphore}:timeout", permit))
    )
    units = "{semaphore}:redisson_py:units"
    tombstone = f"{{semaphore}}:redisson_py:tombstone:{chance.choice((owner, permit.hex()))}"
    return chance.choice(
        [
            send("DEL", chance.choice(("semaphore", permits, units))),
            send("SET", "semaphore", chance.choice((-1, 0, 1, 2, 3, 10**6, 2**31, "01", "x"))),
            send("INCRBY", "semaphore", chance.choice((-1, 1, 2))),
            send("PERSIST", chance.choice(("semaphore", permits, units))),
            send("PEXPIRE", chance.choice(("semaphore", permits, units)), 3 * LEASE),
            ends(permits, member, chance.choice((-1, -1, 3))),
            send("ZREM", permits, member),
            send("HSET", units, owner, chance.choice((1, 1, 2, "01", "x"))),
            send("HDEL", units, owner),
            send("SET", tombstone, 1),
            send("DEL", tombstone),
        ]
    )


def walk(chance: Random, change: Callable[[Random, str], Step]) -> list[Step]:
    """Return random steps: more of the holders than of others."""
    steps: list[Step] = []
    for _ in range(40):
        owner, count = chance.choice(OWNERS), chance.choice((1, 1, 1, 1, 2))
        what = chance.random()
        if what < 0.45:
            steps.append(acquire(owner, count, chance.choice((1, 1, 3))))
        elif what < 0.8:
            left, tombstone_ms = chance.choice((0, 0, 0, 0, 1)), chance.choice((0, 0, 0, TOMBSTONE))
            steps.append(release(owner, left, tombstone_ms))
        else:
            steps.append(change(chance, owner))
    return [answered(step) for step in steps]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
async def test_both_ways_agree_in_any_state(
    scripts: Scripts, redis: Redis, kind: str, seed: int
) -> None:
    make = KINDS[kind]
    steps = walk(Random(f"{kind} {seed}"), of_a_lock if kind in LOCKS else of_a_semaphore)
    async with listening(redis, make(scripts, True).channel) as listener:
        short = await trace(make(scripts, True), redis, steps, listener)
        long = await trace(make(scripts, False), redis, steps, listener)
    for number, (one, other) in enumerate(zip(short, long, strict=True)):
        assert one == other, number
