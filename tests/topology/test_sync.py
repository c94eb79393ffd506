"""`sync_replicas`: what is granted counts when replicas have confirmed it, and not before."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from redisson_py import (
    ClientClosedError,
    LeaseLostError,
    Permit,
    Redisson,
    ReplicationError,
)
from redisson_py._redis.stream import stream
from redisson_py._redis.stream.call import Call
from redisson_py._redis.topology.confirming import ConfirmingStream
from tests.fixtures.client import ClientFactory
from tests.support.leases import renew_now
from tests.support.streams import stream_of
from tests.support.waiting import until, until_async
from tests.topology.conftest import Pair, PairFactory

pytestmark = pytest.mark.also("floor")

MANY = 64
ROOM = 10


async def test_one_wait_confirms_all_grants_of_an_iteration(
    pair: Pair, clients: ClientFactory
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=10)
    async with client.get_lock("first"):
        pass
    await pair.redis.config_resetstat()
    leases = await asyncio.gather(*(client.get_lock(f"k{n}").acquire() for n in range(MANY)))
    assert await pair.calls("wait") == 1
    assert await pair.calls("evalsha") == MANY
    on_master, on_replica = await pair.keys()
    assert len(on_master) == MANY
    assert on_replica == on_master
    await asyncio.gather(*(lease.release() for lease in leases))
    assert await pair.calls("wait") == 1


async def test_what_comes_during_a_wait_is_the_next_batch(
    pair: Pair, clients: ClientFactory
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    async with client.get_lock("first"):
        pass
    await pair.redis.config_resetstat()
    await pair.freeze()
    tasks = [asyncio.create_task(client.get_lock("k").acquire())]
    await until_async(pair.blocked)
    tasks += [asyncio.create_task(client.get_lock(f"k{n}").acquire()) for n in range(MANY)]
    await asyncio.sleep(0)
    await client.ping()
    assert await pair.calls("evalsha") == 1
    await pair.servers.thaw(pair.replicas[0])
    for lease in await asyncio.gather(*tasks):
        await lease.release()
    assert await pair.calls("wait") == 2


async def test_what_gathers_has_no_more_time_than_what_is_written(
    pair: Pair, clients: ClientFactory
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=5, command_timeout=30)
    async with client.get_lock("first"):
        pass
    grants = cast("ConfirmingStream", stream_of(client).grants)
    async with pair.redis.monitor() as monitor:
        await pair.freeze()
        tasks = [asyncio.create_task(client.get_lock("k").acquire())]
        # As soon as it is written: a moment later, what comes would have time left.
        await until(lambda: grants._gate is not None)
        tasks += [asyncio.create_task(client.get_lock(f"early{n}").acquire()) for n in range(MANY)]
        # More than the part of the time that is too little for a WAIT of its own.
        await asyncio.sleep(1.5)
        tasks += [asyncio.create_task(client.get_lock(f"late{n}").acquire()) for n in range(MANY)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} == {ReplicationError}
        # Sent behind the releases.
        await client.ping()
        await pair.redis.echo("the end")
        waits: list[int] = []
        while (command := (await monitor.next_command())["command"]) != "ECHO the end":
            if command.startswith("WAIT "):
                waits.append(int(command.split()[2]))
    assert waits[1] < waits[0] <= 5000
    # What came right behind the first failed with it, and was not sent: there is nothing to undo.
    assert len(await pair.redis.keys("*:redisson_py:tombstone:*")) == 1 + MANY
    await pair.thaw()
    assert await pair.keys() == [set(), set()]


async def test_with_too_few_replicas_nothing_is_held(pair: Pair, clients: ClientFactory) -> None:
    client, other = clients(pair.url, sync_replicas=1, sync_timeout=2), clients(pair.url)
    async with client.get_lock("k"):
        pass
    await pair.freeze()
    results = await asyncio.gather(
        *(client.get_lock(f"k{n}").acquire() for n in range(MANY)), return_exceptions=True
    )
    for error in results:
        assert isinstance(error, ReplicationError)
        assert (error.asked, error.got) == (1, 0)
    # Sent behind the releases.
    await client.ping()
    for number in range(MANY):
        lease = await other.get_lock(f"k{number}").try_acquire()
        assert lease is not None
        await lease.release()
    await pair.thaw()
    assert await pair.keys() == [set(), set()]
    async with client.get_lock("k"):
        pass


async def test_a_block_that_is_not_confirmed_is_not_entered(
    pair: Pair, clients: ClientFactory
) -> None:
    client, other = clients(pair.url, sync_replicas=1, sync_timeout=1.5), clients(pair.url)
    lock, semaphore = client.get_lock("k"), client.get_permit_expirable_semaphore("s", 1)
    # Both connections stand from here on, so blocks take the short way.
    async with lock, semaphore:
        pass
    await pair.freeze()
    with pytest.raises(ReplicationError):
        async with lock:
            pytest.fail("nothing has confirmed it")
    with pytest.raises(ReplicationError):
        async with semaphore:
            pytest.fail("nothing has confirmed it")
    # Sent behind the releases.
    await client.ping()
    async with other.get_lock("k"), other.get_permit_expirable_semaphore("s", 1):
        assert not await client.get_lock("k").try_acquire()


@pytest.mark.parametrize("enough", [True, False])
async def test_one_of_two_replicas(
    enough: bool, pairs: PairFactory, clients: ClientFactory
) -> None:
    pair = await pairs(replicas=2)
    client = clients(pair.url, sync_replicas=1 if enough else 2, sync_timeout=10 if enough else 3)
    await pair.freeze(0)
    if enough:
        async with client.get_lock("k"):
            pass
    else:
        with pytest.raises(ReplicationError) as caught:
            await client.get_lock("k").acquire()
        assert (caught.value.asked, caught.value.got) == (2, 1)
    await client.ping()
    await pair.thaw()
    assert await pair.keys() == [set(), set(), set()]


async def test_a_demotion_during_the_wait_is_no_answer(pair: Pair, clients: ClientFactory) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    async with client.get_lock("first"):
        pass
    await pair.freeze()
    acquiring = asyncio.create_task(client.get_lock("k").acquire())
    await until_async(pair.blocked)
    replica = pair.replicas[0]
    await pair.redis.replicaof(replica.host, str(replica.port))
    await until(lambda: stream_of(client).grants.traffic.connections > 1)
    assert not acquiring.done()
    await pair.redis.replicaof("NO", "ONE")
    await pair.thaw()
    lease = await acquiring
    assert await pair.keys() == [{b"k"}, {b"k"}]
    await lease.release()
    await client.ping()
    await pair.thaw()
    assert await pair.keys() == [set(), set()]


async def test_renewals_that_are_not_confirmed_do_not_count(
    pair: Pair, clients: ClientFactory
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=2, lease_time=6)
    lease = await client.get_lock("k").acquire()
    await pair.freeze()
    ends_at, before = lease._ends_at, await pair.calls("pexpire")
    await until_async(lambda: renewed(pair, before))
    assert lease._ends_at == ends_at
    with pytest.raises(LeaseLostError) as caught:
        async with lease:
            await asyncio.sleep(30)
    assert caught.value.reason == "expired"
    await client.ping()
    assert not await pair.redis.exists("k")
    await pair.thaw()
    assert await pair.keys() == [set(), set()]


async def renewed(pair: Pair, before: int) -> bool:
    return await pair.calls("pexpire") > before


async def test_a_hold_that_is_gone_is_reported_although_nothing_is_confirmed(
    pair: Pair, clients: ClientFactory
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=3, lease_time=12)
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock("k"), client.get_lock("other"):
            await pair.freeze()
            await pair.redis.delete("k")
            renew_now(client)
            await asyncio.sleep(30)
    assert caught.value.reason == "taken"


async def test_a_waiter_behind_others_learns_that_replicas_do_not_answer(
    pair: Pair, clients: ClientFactory
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    async with client.get_lock("k"):
        await pair.freeze()
        first = asyncio.create_task(client.get_lock("first").acquire())
        await until_async(pair.blocked)
        with pytest.raises(ReplicationError, match="nothing is held") as caught:
            await client.get_lock("behind").acquire(timeout=0.5)
        assert (caught.value.asked, caught.value.got) == (1, 0)
        await pair.thaw()
        await (await first).release()
    assert not await pair.redis.exists("behind")


async def test_releases_need_no_replica(pair: Pair, clients: ClientFactory) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    semaphore = client.get_semaphore("semaphore", 1)
    permit, lease = await semaphore.acquire(), await client.get_lock("k").acquire()
    await pair.freeze()
    waiting = asyncio.create_task(client.get_lock("other").acquire())
    await until_async(pair.blocked)
    await permit.release()
    await lease.release()
    assert not waiting.done()
    assert not await pair.redis.exists("k")
    await pair.thaw()
    await (await waiting).release()


async def test_busy_is_reported_at_once(pair: Pair, clients: ClientFactory) -> None:
    client, other = clients(pair.url, sync_replicas=1, sync_timeout=30), clients(pair.url)
    async with other.get_lock("k"):
        await pair.freeze()
        assert await client.get_lock("k").try_acquire() is None
        await pair.thaw()


async def test_latches_and_barriers_are_not_confirmed(pair: Pair, clients: ClientFactory) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30)
    await pair.freeze()
    latch = client.get_latch("latch", 1)
    waiting = asyncio.create_task(latch.wait(timeout=20))
    await until(lambda: client._context.bus.table.seats)
    await latch.count_down()
    await waiting
    barrier = client.get_barrier("barrier", 2)
    await asyncio.gather(barrier.wait(), barrier.wait())
    assert await pair.calls("wait") == 0


async def test_permits(pair: Pair, clients: ClientFactory) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=1.5)
    semaphores = (
        client.get_semaphore("semaphore", 2),
        client.get_permit_expirable_semaphore("semaphore:2", 2),
    )
    for semaphore in semaphores:
        free = semaphore.available
        permit: Permit = await semaphore.acquire()
        await pair.freeze()
        with pytest.raises(ReplicationError):
            await semaphore.acquire()
        assert await free() == 1
        await pair.thaw()
        await permit.release()
        assert await free() == 2


async def test_a_reentry_that_is_not_confirmed_leaves_the_outer_hold(
    pair: Pair, clients: ClientFactory
) -> None:
    lock = clients(pair.url, sync_replicas=1, sync_timeout=2).get_lock("k")
    async with lock as lease:
        await pair.freeze()
        with pytest.raises(ReplicationError):
            await lock.acquire()
        assert not lease.lost
        assert await lock.hold_count() == 1
        await pair.thaw()
        async with lock:
            assert await lock.hold_count() == 2
    assert not await lock.locked()


async def test_an_extension_that_is_not_confirmed(pair: Pair, clients: ClientFactory) -> None:
    lease = await clients(pair.url, sync_replicas=1, sync_timeout=2).get_lock("k").acquire()
    ends_at = lease._ends_at
    await pair.freeze()
    with pytest.raises(ReplicationError, match=r"0 of 1 .* the old or the new lease"):
        await lease.extend(300)
    assert lease._ends_at <= ends_at
    await pair.thaw()
    await lease.extend(300)
    assert lease._ends_at > ends_at
    await lease.release()


async def test_closing_during_a_wait(pair: Pair, clients: ClientFactory) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30)
    await client.ping()
    await pair.freeze()
    acquiring = [asyncio.create_task(client.get_lock(name).acquire()) for name in "abc"]
    await until_async(pair.blocked)
    acquiring.append(asyncio.create_task(client.get_lock("d").acquire()))
    await asyncio.sleep(0)
    await client.aclose()
    results = await asyncio.gather(*acquiring, return_exceptions=True)
    assert {type(result) for result in results} == {ClientClosedError}
    assert (await pair.redis.keys("?")) == []
    await pair.thaw()
    assert await pair.keys() == [set(), set()]


async def test_closing_during_a_wait_releases_reads_under_write_holds(
    pair: Pair, clients: ClientFactory
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30)
    lock, other = client.get_read_write_lock("k"), client.get_read_write_lock("l")
    await lock.write_lock().acquire()
    await lock.read_lock().acquire()
    await other.write_lock().acquire()
    read = await other.read_lock().acquire()
    await pair.freeze()
    waiting = asyncio.create_task(client.get_lock("other").acquire())
    await until_async(pair.blocked)
    releasing = asyncio.create_task(read.release())
    await asyncio.sleep(0)
    releasing.cancel()
    await client.aclose()

    async def all_free() -> bool:
        return not await pair.redis.exists("k", "l")

    await until_async(all_free, 3)
    with pytest.raises(ClientClosedError):
        await waiting


async def test_one_server_has_one_connection_by_default(pair: Pair, clients: ClientFactory) -> None:
    client = clients(pair.url)
    await pair.freeze()
    async with client.get_lock("k"):
        pass
    assert client.statistics().connections == 1
    assert await pair.calls("wait") == 0


async def test_a_client_that_is_opened_again_counts_on(pair: Pair) -> None:
    client = Redisson.from_url(pair.url, sync_replicas=1, sync_timeout=10)
    async with client, client.get_lock("k"):
        assert client.statistics().connections == 2
    sent = client.statistics().commands_sent
    async with client, client.get_lock("k"):
        assert client.statistics().connections == 4
        assert client.statistics().commands_sent > sent


async def test_no_more_grants_are_asked_for_than_there_is_room_for(
    pair: Pair, clients: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    async with client.get_lock("first"):
        pass
    monkeypatch.setattr(stream, "MAX_COMMANDS_IN_FLIGHT", ROOM)
    grants = stream_of(client).grants
    send, counts = grants.send, list[int]()

    def watched(call: Call) -> Call:
        assert grants._wire is not None
        counts.append(len(grants._wire.in_flight) + len(grants._backlog))
        return send(call)

    monkeypatch.setattr(grants, "send", watched)
    await pair.freeze()
    tasks = [asyncio.create_task(client.get_lock(f"k{n}").acquire()) for n in range(6 * ROOM)]
    await until_async(pair.blocked)
    await client.ping()
    assert not any(task.done() for task in tasks)
    await pair.servers.thaw(pair.replicas[0])
    for lease in await asyncio.gather(*tasks):
        await lease.release()
    # A WAIT may come between a caller that was let in and its call.
    assert ROOM - 1 <= max(counts) <= ROOM


async def test_a_forced_release_finds_a_grant_that_replicas_have_not_confirmed(
    pair: Pair, clients: ClientFactory
) -> None:
    """The master forgets it before its own client has heard of it."""
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    other = clients(pair.url)
    async with client.get_lock("first"):
        pass
    await pair.freeze()
    acquiring = asyncio.create_task(client.get_lock("k").acquire())
    await until_async(pair.blocked)
    assert await client.get_lock("k").force_release()
    taken = await other.get_lock("k").acquire(timeout=0)
    await pair.servers.thaw(pair.replicas[0])
    lease = await acquiring
    # No renewal is due by now.
    async with asyncio.timeout(5):
        await lease.wait_lost()
    await taken.release()


@pytest.mark.parametrize("iterations", [1, 2, 3])
async def test_a_call_whose_caller_was_cancelled_is_confirmed_as_any_other(
    pair: Pair, clients: ClientFactory, iterations: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It has another future then, beside which a batch of grants was confirmed."""
    client = clients(pair.url, sync_replicas=1, sync_timeout=30, command_timeout=30)
    lock = client.get_lock("k")
    outer, inner = await lock.acquire(), await lock.acquire()
    releasing = asyncio.create_task(inner.release())
    for _ in range(iterations):
        await asyncio.sleep(0)
    releasing.cancel()
    await asyncio.wait([releasing])
    await outer.extend(20)
    await outer.release()
    assert not await lock.locked()
    assert not [record for record in caplog.records if "Fatal" in record.getMessage()]
