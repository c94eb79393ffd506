"""A slot stays half moved for longer than leases last: some keys here, some there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from redisson_py import ConnectionLostError, Lease, Redisson
from redisson_py.testing import EmbeddedCluster, EmbeddedServer, SlotMigration
from tests.fixtures.client import ClientFactory
from tests.support.leases import renewed_at_once

#: Seconds: of what may be lost because its keys are in two places.
LEASE = 8.0
#: Of what must not end, however slow the machine is, in seconds; of two readers one has less left.
LONG, SHORTENED = 900, 450
#: What is one key, wherever it is, or none.
ANSWERED = ("lock.locked", "fair.locked", "read.locked", "write.locked", "absent.locked")
#: Which of a name's keys have moved.
STATES = ("none", "main", "others", "all")


async def move(migration: SlotMigration) -> None:
    """Move what each name's state says."""
    there = []
    for key in await migration.keys():
        state = next((state for state in STATES if f"-{state}" in key), "none")
        main = key.endswith(f"-{state}")
        if state == "all" or state == ("main" if main else "others"):
            there.append(key)
    await migration.move_keys(*there)


async def left(node: EmbeddedServer, key: str) -> int:
    """Return the milliseconds that a node keeps a key; -2: it is not there."""
    async with Redis.from_url(node.url) as redis, redis.client() as connection:
        run: Any = connection.execute_command
        await run("ASKING")
        try:
            return int(await run("PTTL", key))
        except ResponseError:
            return -2


Question = Callable[[], Awaitable[object]]


def questions(client: Redisson, state: str) -> dict[str, tuple[Question, object]]:
    """Return what may be asked of somebody else's, and the only right answer."""
    lock = client.get_lock(f"{{x}}lock-{state}")
    fair = client.get_fair_lock(f"{{x}}fair-{state}")
    fenced = client.get_fenced_lock(f"{{x}}fenced-{state}")
    both = client.get_read_write_lock(f"{{x}}read-{state}")
    written = client.get_read_write_lock(f"{{x}}write-{state}")
    semaphore = client.get_semaphore(f"{{x}}semaphore-{state}")
    expirable = client.get_permit_expirable_semaphore(f"{{x}}semaphore_expirable-{state}")
    absent = client.get_lock(f"{{x}}absent-{state}")
    barrier = client.get_barrier(f"{{x}}barrier-{state}", 2)
    # The braces that put all of a latch into one slot are its own.
    latch = client.get_latch("x")
    return {
        "lock.acquire": (lambda: lock.try_acquire(), None),
        "lock.locked": (lock.locked, True),
        "lock.owned": (lock.owned, False),
        "fair.acquire": (lambda: fair.try_acquire(), None),
        "fair.locked": (fair.locked, True),
        "fenced.acquire": (lambda: fenced.try_acquire(), None),
        "read.locked": (both.read_lock().locked, True),
        "write of read": (lambda: both.write_lock().try_acquire(), None),
        "read of write": (lambda: written.read_lock().try_acquire(), None),
        "write.locked": (written.write_lock().locked, True),
        "write.acquire": (lambda: written.write_lock().try_acquire(), None),
        "semaphore.acquire": (lambda: semaphore.try_acquire(2), None),
        "semaphore.available": (semaphore.available, 1),
        "semaphore.add": (lambda: semaphore.add_permits(0), None),
        "semaphore.set": (lambda: semaphore.try_set_permits(7), False),
        "expirable.acquire": (lambda: expirable.try_acquire_many(2), None),
        "expirable.available": (expirable.available, 1),
        "expirable.acquired": (expirable.acquired, 1),
        "expirable.set": (lambda: expirable.try_set_permits(7), False),
        "absent.locked": (absent.locked, False),
        "absent.force_release": (absent.force_release, False),
        "absent.remaining": (absent.remaining, None),
        "barrier.waiting": (barrier.n_waiting, 0),
        "latch.count": (latch.count, 2),
        "latch.set": (lambda: latch.try_set_count(7), False),
    }


async def test_what_is_held_in_a_slot_that_stays_half_moved(
    cluster: EmbeddedCluster, clients: ClientFactory
) -> None:
    client, other = clients(cluster.url, lease_time=LONG), clients(cluster.url)
    parting = clients(cluster.url, lease_time=LEASE)
    # Long enough for an answer on a busy machine, and short enough for some rounds of refusals.
    asking = clients(cluster.url, command_timeout=4, lease_time=SHORTENED)
    patient = clients(cluster.url, command_timeout=30)
    kept: list[Lease] = []
    parted: list[Lease] = []
    long_readers: dict[str, Lease] = {}
    shortened: dict[str, Lease] = {}
    assert await client.get_latch("x").try_set_count(2)
    for state in STATES:
        kept += [
            await client.get_lock(f"{{x}}lock-{state}").acquire(),
            await client.get_fair_lock(f"{{x}}fair-{state}").acquire(),
            await client.get_fenced_lock(f"{{x}}fenced-{state}").acquire(),
            await client.get_read_write_lock(f"{{x}}write-{state}").write_lock().acquire(),
        ]
        # What lies in several keys is served only where these are together.
        together = state in ("none", "all")
        holder = client if together else parting
        (kept if together else parted).extend(
            [
                await holder.get_semaphore(f"{{x}}semaphore-{state}", 2).acquire(),
                await holder.get_permit_expirable_semaphore(
                    f"{{x}}semaphore_expirable-{state}", 2
                ).acquire(),
            ]
        )
        name = f"{{x}}read-{state}"
        parted.append(await parting.get_read_write_lock(name).read_lock().acquire())
        long = await other.get_read_write_lock(name).read_lock().acquire(lease_time=LONG)
        long_readers[name] = long
        shortened[state] = await asking.get_read_write_lock(name).read_lock().acquire()
    migration = await cluster.begin_migration("{x}")
    await move(migration)
    began = asyncio.get_running_loop().time()
    results: Counter[str] = Counter()
    refusals: set[str] = set()

    async def ask(state: str, what: str, question: Question, right: object) -> None:
        try:
            answer = await question()
        except ConnectionLostError as error:
            refusals.add(str(error))
        else:
            assert answer == right, (what, state, answer)
            results[f"{what} {state}"] += 1

    rounds = 0
    while asyncio.get_running_loop().time() < began + 2 * LEASE:
        rounds += 1
        await asyncio.gather(
            *(
                ask(state, what, *pair)
                for state in STATES
                for whose in (asking, patient)
                for what, pair in questions(whose, state).items()
                if (what in ANSWERED) == (whose is patient)
            ),
            renewed_at_once(client),
            # With some keys missing, this would cut the hash to the lease of one reader.
            *(
                ask(state, "read.extend", partial(lease.extend, SHORTENED), None)
                for state, lease in shortened.items()
            ),
        )
        for name, reader in long_readers.items():
            milliseconds = [await left(node, name) for node in (migration.source, migration.target)]
            needed = 1000 * reader.remaining
            assert max(milliseconds) > needed - 1000, (name, milliseconds, needed)
            reader.check()
    assert refusals
    assert all("TRYAGAIN" in text or "its slot is moving (ASK" in text for text in refusals)
    for what in ANSWERED:
        assert {results[f"{what} {state}"] for state in STATES} == {rounds}
    for lease in kept:
        lease.check()
    losses = parting.statistics().losses_by_reason
    # Whose renewal waits is not told that somebody else has it.
    assert losses["expired"] == parting.statistics().losses == sum(lease.lost for lease in parted)
    for each in (client, other, asking):
        assert each.statistics().losses == 0
    await migration.finish()
    for lease in (*kept, *long_readers.values(), *shortened.values()):
        await lease.release()
    for lease in parted:
        if not lease.lost:
            await lease.release()
    assert not client._watchdog.holds
    assert not parting._watchdog.holds
    # And now everybody gets it.
    for state in STATES:
        for what in ("lock", "fair", "write"):
            async with other.get_lock(f"{{x}}{what}-{state}").hold(timeout=60):
                pass
        async with other.get_read_write_lock(f"{{x}}read-{state}").write_lock().hold(timeout=60):
            pass
        semaphore = other.get_semaphore(f"{{x}}semaphore-{state}")
        expirable = other.get_permit_expirable_semaphore(f"{{x}}semaphore_expirable-{state}")
        async with semaphore.hold(2, timeout=60):
            pass
        for expired in await expirable.acquire_many(2, timeout=60):
            await expired.release()
