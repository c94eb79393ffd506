"""Numbers that Redis 7.2.0 to 7.2.4 hands to commands in scientific notation change nothing.

There a script's number that can be divided by 10^8 arrives as "1e+08" (redis#13113, fixed in Redis
7.2.5 and Valkey 7.2.6): a lease of 100,000 seconds is enough. No server of these versions is at
hand, so the scripts run with a `redis` that does the same to their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py._scripts.source import Arg, Script
from tests.support.scripts.barrier import BarrierScripts
from tests.support.scripts.calls import A, B, C, Scripts, ask
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.fair import FairScripts
from tests.support.scripts.latch import LatchScripts
from tests.support.scripts.lock import LockScripts
from tests.support.scripts.permits import SemaphoreScripts
from tests.support.scripts.read_write import ReadWriteScripts

#: A lease of nearly 28 hours; also as a number of permits, a hold count and a version.
GREAT = 100_000_000

#: Converts numbers as fpconv_dtoa does, of which only those with eight zeros at the end matter.
OLD_REDIS = """
local redis = (function(redis)
  local function told(...)
    local words = {...}
    for i = 1, select('#', ...) do
      local word = words[i]
      if type(word) == 'number' and word ~= 0 and word % 100000000 == 0 then
        words[i] = string.gsub(string.format('%.16e', word), '%.?0*e', 'e')
      end
    end
    return unpack(words, 1, select('#', ...))
  end
  local call, pcall = redis.call, redis.pcall
  return setmetatable({
    call = function(...) return call(told(...)) end,
    pcall = function(...) return pcall(told(...)) end,
  }, {__index = redis})
end)(redis)
"""

Step = Callable[[], Awaitable[Any]]


class OldScripts(Scripts):
    """The scripts as such a server runs them."""

    async def _evalsha(self, script: Script, args: tuple[Arg, ...]) -> Any:
        first, _, rest = self.wording(script).text.partition("\n")
        parts = [first, OLD_REDIS, rest] if first.startswith("#!") else [OLD_REDIS, first, rest]
        return await ask(self.redis, "EVAL", "\n".join(parts), *args)


@pytest_asyncio.fixture
async def old(redis: Redis) -> OldScripts:
    """Every script, as Redis 7.2.4 runs it."""
    return await OldScripts.on(redis)


async def test_the_old_server_is_the_old_server(redis: Redis) -> None:
    """Else nothing is shown here."""
    for number, told in [
        ("1e8", b"1e+08"),
        ("12300000000", b"1.23e+10"),
        ("-2e8", b"-2e+08"),
        ("10000000", b"10000000"),
        ("0", b"0"),
        ("'100000000'", b"100000000"),
    ]:
        # Lua writes two digits of an exponent, fpconv_dtoa as few as there are.
        text = f"{OLD_REDIS}return redis.call('ECHO', {number})"
        assert await ask(redis, "EVAL", text, 0) == told
    with pytest.raises(ResponseError, match="not an integer"):
        await ask(redis, "EVAL", OLD_REDIS + "return redis.call('PEXPIRE', KEYS[1], 1e8)", 1, "k")


async def of_lock(scripts: Scripts, redis: Redis) -> list[Step]:
    lock = LockScripts(scripts)
    great: dict[str, Arg] = {"version": GREAT, "version_ms": GREAT}
    return [
        lambda: lock.acquire(A, lease_ms=GREAT),
        lambda: lock.acquire(A, GREAT, 2 * GREAT, **great),
        lambda: lock.renew(A, 3 * GREAT),
        lambda: lock.set_lease(A, GREAT, version=2 * GREAT, version_ms=GREAT),
        lambda: lock.release(A, 1, 2 * GREAT, version=3 * GREAT, version_ms=GREAT),
        lambda: lock.force_release("r", GREAT),
        lambda: lock.acquire(B, lease_ms=GREAT, **great),
        lambda: lock.release(B, 0, GREAT, GREAT),
    ]


async def of_fenced_lock(scripts: Scripts, redis: Redis) -> list[Step]:
    lock = LockScripts(scripts, fenced=True)

    def values(lease_ms: int) -> dict[str, Arg]:
        return {"lease_ms": lease_ms, "version": GREAT, "version_ms": GREAT}

    async def acquire(holds: int, lease_ms: int) -> int:
        reply = await lock.acquire_fenced(A, holds, tokens=1, idle_ms=GREAT, **values(lease_ms))
        return reply[0]

    async def renew() -> Any:
        return await scripts.run_batch(
            "fenced_lock.renew",
            [lock.key, lock.token_key],
            [A],
            lease_ms=3 * GREAT,
            idle_ms=GREAT,
        )

    async def set_lease() -> Any:
        versioned = lock.versioned(A, 2 * GREAT, GREAT)
        return await scripts.run(
            "fenced_lock.set_lease",
            lock=lock.key,
            clients=lock.clients,
            token=lock.token_key,
            owner=A,
            lease_ms=GREAT,
            channel=lock.channel,
            idle_ms=GREAT,
            **versioned,
        )

    return [lambda: acquire(1, GREAT), lambda: acquire(GREAT, 2 * GREAT), renew, set_lease]


async def of_fair_lock(scripts: Scripts, redis: Redis) -> list[Step]:
    lock = FairScripts(scripts)
    great: dict[str, Arg] = {"version": GREAT, "version_ms": GREAT}
    return [
        lambda: lock.acquire(A, lease_ms=GREAT, wait_ms=GREAT, **great),
        lambda: lock.acquire(A, GREAT, 2 * GREAT, version=2 * GREAT, version_ms=GREAT),
        lambda: lock.acquire(B, wait_ms=GREAT, alive_ms=GREAT),
        lambda: lock.acquire(C, wait_ms=GREAT, alive_ms=GREAT),
        lambda: lock.release(A, 1, GREAT, version=3 * GREAT, version_ms=GREAT),
        lambda: lock.leave(C, GREAT),
        lambda: lock.release(A, 0, GREAT, tombstone_ms=GREAT),
        lambda: lock.acquire(B, lease_ms=GREAT, wait_ms=GREAT, alive_ms=GREAT),
        lambda: lock.force_release("r", GREAT),
    ]


async def of_read_write_lock(scripts: Scripts, redis: Redis) -> list[Step]:
    lock = ReadWriteScripts(scripts)
    read, write = lock.read, lock.write
    steps: list[Step] = []
    for side in (read, write):
        steps += [
            lambda side=side: side.acquire(A, lease_ms=GREAT, version=1, version_ms=GREAT),  # type: ignore[misc]
            lambda side=side: side.acquire(A, 2, 2 * GREAT, version=GREAT, version_ms=GREAT),  # type: ignore[misc]
            lambda side=side: side.renew(A, 3 * GREAT),  # type: ignore[misc]
            lambda side=side: side.set_lease(A, GREAT, version=2 * GREAT, version_ms=GREAT),  # type: ignore[misc]
            lambda side=side: side.release(A, 1, GREAT, version=3 * GREAT, version_ms=GREAT),  # type: ignore[misc]
        ]
        if side is write:
            steps += [
                lambda: read.acquire(A, lease_ms=GREAT),
                lambda: write.acquire(B, lease_ms=GREAT, waits=GREAT),
                lambda: write.release(A, 0, GREAT, GREAT),
                lambda: read.release(A, 0, GREAT, GREAT),
            ]
        steps.append(lambda side=side: side.force_release("r", GREAT))  # type: ignore[misc]
    # A crowd has an index, which is looked at when the one that leaves has the longest lease.
    steps.append(lambda: read.acquire("crowd:0", lease_ms=2 * GREAT))
    steps += [
        lambda number=number: read.acquire(f"crowd:{number}", lease_ms=GREAT)  # type: ignore[misc]
        for number in range(1, 20)
    ]
    return [*steps, lambda: read.release("crowd:0", 0, GREAT), lambda: read.renew("crowd:1", GREAT)]


async def of_semaphore(scripts: Scripts, redis: Redis) -> list[Step]:
    semaphore = SemaphoreScripts(scripts)
    great: dict[str, Arg] = {"lease_ms": GREAT, "idle_ms": GREAT}

    async def end() -> None:
        await semaphore.end(B)

    return [
        lambda: semaphore.set(4 * GREAT, life_ms=GREAT, receipt_ms=GREAT),
        lambda: semaphore.acquire(A, GREAT, **great),
        lambda: semaphore.acquire(B, GREAT, **great),
        lambda: semaphore.renew(A, 2 * GREAT, idle_ms=GREAT),
        lambda: semaphore.set_lease(A, GREAT, version=GREAT, version_ms=GREAT, idle_ms=GREAT),
        lambda: semaphore.add(GREAT, receipt_ms=GREAT),
        end,
        lambda: semaphore.available(),
        lambda: semaphore.set(6 * GREAT, replaces=1, receipt_ms=GREAT),
        lambda: semaphore.inspect(GREAT),
        lambda: semaphore.drain(receipt_ms=GREAT),
        lambda: semaphore.release(A, 1, version=2 * GREAT, version_ms=GREAT),
        lambda: semaphore.release(A, 0, tombstone_ms=GREAT),
        lambda: semaphore.remove(receipt_ms=GREAT),
        # The short way of one that gives all back.
        lambda: semaphore.add(2 * GREAT),
        lambda: semaphore.acquire(C, GREAT, lease_ms=GREAT),
        lambda: semaphore.release(C, 0),
    ]


async def of_expirable_semaphore(scripts: Scripts, redis: Redis) -> list[Step]:
    semaphore = ExpirableScripts(scripts)
    one, two, three = (bytes([number]) * 16 for number in (1, 2, 3))
    great: dict[str, Arg] = {"lease_ms": GREAT, "idle_ms": GREAT}
    return [
        lambda: semaphore.set(GREAT, life_ms=GREAT, receipt_ms=GREAT),
        lambda: semaphore.acquire(one + two, **great),
        lambda: semaphore.acquire(three, **great),
        lambda: semaphore.renew(one, 2 * GREAT, idle_ms=GREAT),
        lambda: semaphore.set_lease(one, GREAT, version=GREAT, version_ms=GREAT, idle_ms=GREAT),
        lambda: semaphore.update_lease(two, GREAT, version=GREAT, version_ms=GREAT),
        lambda: semaphore.add(GREAT, receipt_ms=GREAT),
        lambda: semaphore.set(3 * GREAT, replaces=1, receipt_ms=GREAT),
        lambda: semaphore.inspect(GREAT),
        lambda: semaphore.release(one, calls=None, receipt_ms=GREAT, tombstone_ms=GREAT),
        lambda: semaphore.release_all(two + three, receipt_ms=GREAT),
        lambda: semaphore.available(),
    ]


async def of_latch(scripts: Scripts, redis: Redis) -> list[Step]:
    latch = LatchScripts(scripts)
    return [
        lambda: latch.set(2 * GREAT),
        lambda: latch.down(GREAT),
        lambda: latch._change("delete", "a", None, receipt_ms=GREAT),
        lambda: latch._change("try_set_count", "a", None, counts=GREAT, receipt_ms=GREAT),
        lambda: latch.delete(),
        lambda: latch.count(3 * GREAT, receipt_ms=GREAT),
        lambda: latch.down(GREAT, 3 * GREAT),
        lambda: latch.value(),
    ]


async def of_barrier(scripts: Scripts, redis: Redis) -> list[Step]:
    barrier = BarrierScripts(scripts, parties=2)

    async def wait(owner: str, parties: int = 2) -> tuple[int, int]:
        reply = await barrier.wait(owner, parties=parties, lease_ms=GREAT, receipt_ms=GREAT)
        return reply.state, reply.position

    return [
        lambda: wait("a", GREAT),
        lambda: wait("b"),
        lambda: barrier.leave("a", lease_ms=GREAT, receipt_ms=GREAT),
        lambda: barrier.reset(receipt_ms=GREAT),
        lambda: wait("c"),
        lambda: wait("d"),
        lambda: barrier.abort(receipt_ms=GREAT),
        lambda: wait("e"),
    ]


SCENES = {
    "lock": of_lock,
    "fenced lock": of_fenced_lock,
    "fair lock": of_fair_lock,
    "read-write lock": of_read_write_lock,
    "semaphore": of_semaphore,
    "expirable semaphore": of_expirable_semaphore,
    "latch": of_latch,
    "barrier": of_barrier,
}


def rough(value: Any) -> Any:
    """Return a reply or a state without the milliseconds that two runs differ by."""
    if isinstance(value, dict):
        return {name: rough(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rough(each) for each in value]
    if isinstance(value, bytes) and re.fullmatch(rb"-?\d+(\.\d+)?", value):
        return rough(float(value))
    if isinstance(value, bytes):
        # A generation of a barrier is named after its moment.
        return re.sub(rb"\d{16}", b"moment", value)
    if isinstance(value, int | float) and value > 10**15:
        # A moment of the clock in microseconds: two runs may be seconds apart.
        return "moment"
    if isinstance(value, int | float) and value > GREAT / 2:
        # A moment of the clock in milliseconds, or a time that is left.
        return round(value / 10_000_000)
    return float(f"{value:.2g}") if isinstance(value, int) and value > 1000 else value


async def state(redis: Redis) -> list[Any]:
    """Return every key with its value and expiry."""
    found: list[Any] = []
    for key in sorted([each async for each in redis.scan_iter()]):
        readings: dict[Any, tuple[Any, ...]] = {
            b"hash": ("HGETALL", key),
            b"string": ("GET", key),
            b"list": ("LRANGE", key, 0, -1),
            b"zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
        }
        value = await ask(redis, *readings[await redis.type(key)])
        found.append([key, rough(await redis.pttl(key)), rough(value)])
    return found


@pytest.mark.parametrize("scene", SCENES)
async def test_great_numbers_do_there_what_they_do_here(
    scene: str, scripts: Scripts, old: OldScripts, redis: Redis
) -> None:
    histories: list[list[Any]] = []
    for kind in (scripts, old):
        await redis.flushdb()
        steps = await SCENES[scene](kind, redis)
        histories.append([(rough(await step()), await state(redis)) for step in steps])
    await redis.flushdb()
    assert histories[0] == histories[1]
    assert any(str(rough(GREAT)) in str(each) for each in histories[0])
