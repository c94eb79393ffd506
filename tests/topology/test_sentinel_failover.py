"""Clients of Sentinel while the master changes: killed, frozen, moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest

from redisson_py import ConnectionLostError, Lease, LeaseLostError, Redisson
from redisson_py._time import now
from redisson_py.testing import EmbeddedSentinel
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.support.streams import stream_of
from tests.support.waiting import until, until_async, until_listening
from tests.topology.sentinels import announcements, finder_of, has, listens


async def replicated(servers: EmbeddedSentinel, *keys: str) -> None:
    """Return when every data server has all of these keys."""
    for node in servers.nodes:
        await until_async(partial(has, node, *keys))


async def kill(servers: EmbeddedSentinel) -> None:
    await servers.kill(await servers.master())


async def freeze(servers: EmbeddedSentinel) -> None:
    await servers.freeze(await servers.master())


async def by_hand(servers: EmbeddedSentinel) -> None:
    await servers.failover()


class Probe:
    """Takes locks and gives them back all the time; its losses are not looked at.

    Each has a name of its own: after a failover by hand, the new master may keep a lock whose
    release only the old one has seen.

    Attributes:
        served_at: When the first pair was done by another master than in the beginning.
    """

    def __init__(self, client: Redisson) -> None:
        self.pairs = 0
        self.served_at: float | None = None
        self._client = client
        self._task = asyncio.create_task(self._work())

    async def _work(self) -> None:
        first = None
        while self.served_at is None:
            with suppress(LeaseLostError):
                async with self._client.get_lock(f"probe{self.pairs}").hold(timeout=60):
                    pass
                master = finder_of(self._client).master
                first = first or master
                if master != first:
                    self.served_at = now()
                self.pairs += 1
            await asyncio.sleep(0.005)

    async def end(self) -> float:
        """Wait until another master has done a pair, and return when that was."""
        await asyncio.wait_for(self._task, 30)
        assert self.served_at is not None
        return self.served_at


@pytest.mark.parametrize("fail", [pytest.param(kill, marks=pytest.mark.heart), freeze, by_hand])
async def test_what_was_replicated_is_kept_and_nobody_is_notified_anything(
    own_sentinel: EmbeddedSentinel,
    clients: ClientFactory,
    measured: Measured,
    fail: Callable[[EmbeddedSentinel], Awaitable[None]],
) -> None:
    client, waiter, third = [clients(own_sentinel.url, lease_time=60) for _ in range(3)]
    held = [f"held{n}" for n in range(20)]
    leases = [await client.get_lock(name).acquire() for name in held]
    waiting = asyncio.create_task(waiter.get_lock(held[0]).acquire())
    await until_listening(waiter)
    probe = Probe(third)
    await until(lambda: probe.pairs)
    await until(lambda: all(listens(each) for each in (client, waiter, third)))
    await replicated(own_sentinel, *held)
    old = await own_sentinel.master()
    async with announcements(own_sentinel) as announced:
        await fail(own_sentinel)
        # Through the failover, whichever server answers.
        await until(lambda: finder_of(client).master != (old.host, old.port), 30)
        new = await own_sentinel.wait_master(other_than=old)
        served_at = await probe.end()
        await until(lambda: announced)
    late = max(0.0, served_at - announced[0])
    measured(f"seconds from the first +switch-master to a pair ({fail.__name__})", f"{late:.3f}")
    async with client.get_lock("fresh") as lease:
        assert await has(new, "fresh")
        assert not lease.lost
    assert not any(lease.lost for lease in leases)
    assert await has(new, *held)
    # Its wake-up comes from the new master.
    await leases.pop(0).release()
    async with await waiting:
        assert await has(new, held[0])
    for lease in leases:
        await lease.release()
    assert not await has(new, held[1])
    assert client.statistics().losses == 0


async def test_no_grant_of_the_old_master_is_believed_after_the_message(
    own_sentinel: EmbeddedSentinel, clients: ClientFactory
) -> None:
    """It goes on as a master for ten seconds after a failover by hand."""
    client = clients(own_sentinel.url, lease_time=60)
    await client.ping()
    await until(lambda: listens(client))
    notified = asyncio.Event()
    finder = finder_of(client)
    leave = finder._on_elsewhere

    def left(reason: str) -> None:
        leave(reason)
        # Tasks that were answered before the message run first.
        asyncio.get_running_loop().call_soon(notified.set)

    finder._on_elsewhere = left
    old = await own_sentinel.master()
    before: list[Lease] = []
    after: dict[str, Lease] = {}

    async def ask(number: int) -> None:
        name = f"{number}-{len(before) + len(after)}"
        lease = await client.get_lock(name).acquire()
        if notified.is_set():
            after[name] = lease
        else:
            before.append(lease)

    async def ask_on(number: int) -> None:
        while len(after) < 200:
            await ask(number)
            await asyncio.sleep(0.001)

    asking = [asyncio.create_task(ask_on(number)) for number in range(10)]
    failing = asyncio.create_task(by_hand(own_sentinel))
    async with asyncio.timeout(60):
        await notified.wait()
        # It does not know yet that another one took its place: it was not the one that told us.
        assert (await old.execute("ROLE"))[0] == "master"
        await asyncio.gather(*asking, failing)
    new = await own_sentinel.wait_master(other_than=old)
    # The old one took grants until we were told.
    assert before
    assert await has(new, *after)
    for lease in [*before, *after.values()]:
        # What only the old one knew is lost.
        with suppress(LeaseLostError):
            await lease.release()


async def test_a_client_outlives_its_sentinels_until_it_needs_another_master(
    own_sentinel: EmbeddedSentinel, clients: ClientFactory
) -> None:
    client = clients(own_sentinel.url, lease_time=60)
    # All connections that it needs are open then.
    async with client.get_lock("a"):
        pass
    await until(lambda: listens(client))
    for sentinel in own_sentinel.sentinels:
        await own_sentinel.kill(sentinel)
    async with client.get_lock("a"):
        pass
    stream_of(client).abort("the test says so")
    with pytest.raises(ConnectionLostError) as caught:
        await client.get_lock("a").acquire(timeout=2)
    for sentinel in own_sentinel.sentinels:
        assert sentinel.address in str(caught.value)
    asking = asyncio.create_task(client.get_lock("a").acquire(timeout=60))
    await own_sentinel.revive(own_sentinel.sentinels[1])
    async with await asking:
        pass
    await own_sentinel.revive(own_sentinel.sentinels[0])
    await own_sentinel.revive(own_sentinel.sentinels[2])
    await until(lambda: listens(client))
