"""What a lock promises, over every store: each on a real server."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from redisson_py import (
    AcquireTimeoutError,
    ClientClosedError,
    Lease,
    LeaseLostError,
    Listener,
    LockLike,
    NotHeldError,
    RedissonError,
)
from tests.stores.backends import CLIENT_LEASE, LEASE, Backend, Client
from tests.stores.conftest import NewClient
from tests.support.waiting import until, until_async

pytestmark = [pytest.mark.also("stores-uvloop"), pytest.mark.heart]

#: Seconds for what must happen soon, however busy the machine is.
SOON = 10.0


async def is_waiting(client: Client, count: int) -> None:
    """Return when so many tasks of a client wait."""
    await until(lambda: client.statistics().waiters == count)


async def is_free(client: Client) -> None:
    """Return when nobody holds the lock."""

    async def seen() -> bool:
        return not await client.get_lock("k").locked()

    await until_async(seen)


@pytest.mark.also("floor")
async def test_a_block_holds_it_and_its_end_frees_it(client: Client, other: Client) -> None:
    lock = client.get_lock("k")
    async with lock as lease:
        assert type(lease).__name__.endswith("Lease")
        assert isinstance(lease, Lease)
        assert 0 < lease.remaining <= CLIENT_LEASE
        assert not lease.lost
        assert await lock.locked()
        assert await lock.owned()
        assert await other.get_lock("k").locked()
        assert not await other.get_lock("k").owned()
        assert await other.get_lock("k").try_acquire() is None
    assert not await lock.locked()
    assert await lock.remaining() is None
    async with other.get_lock("k"):
        pass


async def test_the_holder_may_enter_again(client: Client, other: Client) -> None:
    lock = client.get_lock("k")
    async with lock, lock:
        assert await lock.hold_count() == 2
        inner = await lock.acquire()
        assert await lock.hold_count() == 3
        await inner.release()
        assert await lock.hold_count() == 2
        child = asyncio.create_task(lock.try_acquire())
        assert await child is None, "a child task is somebody else"
    assert await lock.hold_count() == 0
    async with other.get_lock("k"):
        pass


async def test_one_that_is_not_reentrant_refuses(client: Client) -> None:
    lock = client.get_lock("k", reentrant=False)
    async with lock:
        with pytest.raises(RuntimeError, match="this task already holds"):
            await lock.acquire()


@pytest.mark.usefixtures("old_busy_counts")
async def test_no_more_time_says_busy(client: Client, other: Client) -> None:
    # It need not connect in that time.
    await other.ping()
    async with client.get_lock("k"):
        with pytest.raises(AcquireTimeoutError, match=r"stayed busy for 2 s"):
            await other.get_lock("k").acquire(timeout=2)
        # In this client it is its local queue that is busy.
        waiter = asyncio.create_task(client.get_lock("k").acquire(timeout=2))
        with pytest.raises(AcquireTimeoutError):
            await waiter
        assert await other.get_lock("k").try_acquire(timeout=2) is None
    # What gives up does not wait until the server has heard of that.
    await is_free(client)


async def test_a_release_lets_the_next_client_in(client: Client, other: Client) -> None:
    lease = await client.get_lock("k").acquire()
    waiter = asyncio.create_task(other.get_lock("k").acquire())
    await is_waiting(other, 1)
    await lease.release()
    async with asyncio.timeout(SOON):
        await (await waiter).release()
    with pytest.raises(NotHeldError):
        await lease.release()


async def test_tasks_of_one_client_are_served_in_their_order(client: Client) -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        async with client.get_lock("k"):
            order.append(number)

    async with client.get_lock("k"):
        tasks = []
        for number in range(10):
            tasks.append(asyncio.create_task(work(number)))
            await is_waiting(client, number + 1)
    await asyncio.gather(*tasks)
    assert order == list(range(10))


async def test_nobody_holds_it_beside_another(new_client: NewClient) -> None:
    inside = counted = 0

    async def work(client: Client) -> None:
        nonlocal inside, counted
        for _ in range(5):
            async with client.get_lock("k"):
                inside += 1
                assert inside == 1
                seen = counted
                await asyncio.sleep(0.001)
                counted = seen + 1
                inside -= 1

    clients = [new_client() for _ in range(3)]
    async with asyncio.timeout(120):
        await asyncio.gather(*[work(client) for client in clients for _ in range(8)])
    assert counted == 120


async def test_a_busy_client_lets_others_in(client: Client, other: Client) -> None:
    done = asyncio.Event()

    async def work() -> None:
        while not done.is_set():
            async with client.get_lock("k"):
                await asyncio.sleep(0)

    greedy = [asyncio.create_task(work()) for _ in range(4)]
    try:
        async with asyncio.timeout(6 * SOON):
            for _ in range(3):
                async with other.get_lock("k"):
                    pass
    finally:
        done.set()
        await asyncio.gather(*greedy)


async def test_names_do_not_disturb_each_other(client: Client) -> None:
    async with contextlib.AsyncExitStack() as stack:
        locks = [client.get_lock(f"k{number}") for number in range(40)]
        leases = await asyncio.gather(*[lock.acquire() for lock in locks[:20]])
        for lock in locks[20:]:
            await stack.enter_async_context(lock)
        assert client.statistics().held_leases == 40
        for lease in leases:
            await lease.release()


# Leases.


async def test_it_is_renewed_for_as_long_as_it_is_held(
    new_client: NewClient, other: Client
) -> None:
    client = new_client(lease_time=2 * LEASE)
    async with client.get_lock("k") as lease:
        await until(lambda: client.statistics().renewals >= 4, seconds=60)
        assert not lease.lost
        assert await other.get_lock("k").try_acquire() is None
    assert client.statistics().losses == 0


async def test_its_own_lease_time_ends_it(client: Client, other: Client) -> None:
    await client.ping()
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock("k").hold(lease_time=2):
            await asyncio.sleep(SOON)
    assert caught.value.reason == "ended"
    async with asyncio.timeout(SOON):
        async with other.get_lock("k"):
            pass


async def test_a_hold_has_a_longest_time(client: Client, other: Client) -> None:
    await client.ping()
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock("k").hold(max_hold=2):
            await asyncio.sleep(SOON)
    assert caught.value.reason == "ended"
    async with asyncio.timeout(SOON):
        async with other.get_lock("k"):
            pass


async def test_an_extended_lease_ends_by_itself(client: Client, other: Client) -> None:
    lease = await client.get_lock("k").acquire()
    await lease.extend(2)
    assert 0 < lease.remaining <= 2
    waiter = asyncio.create_task(other.get_lock("k").acquire())
    await lease.wait_lost()
    with pytest.raises(LeaseLostError) as caught:
        lease.check()
    assert caught.value.reason == "ended"
    async with asyncio.timeout(SOON):
        await (await waiter).release()
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_an_extension_may_be_longer_than_a_lease(
    client: Client, other: Client, backend: Backend
) -> None:
    lease = await client.get_lock("k").acquire(lease_time=LEASE)
    await lease.extend(30)
    if backend.ends_leases:
        assert 25 < lease.remaining <= 30
    await asyncio.sleep(LEASE + 0.5)
    assert await other.get_lock("k").try_acquire() is None
    await lease.release()
    assert not await other.get_lock("k").locked()


# Cancellation.


async def test_a_cancelled_acquire_leaves_nothing(client: Client, other: Client) -> None:
    for number in range(24):
        lease = await client.get_lock("k").acquire()
        task = asyncio.create_task(other.get_lock("k").acquire())
        if number % 3 == 2:
            await is_waiting(other, 1)
        await asyncio.sleep(0.0005 * number)
        task.cancel()
        if number % 2:
            await lease.release()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).release()
        if not number % 2:
            await lease.release()
        async with asyncio.timeout(SOON):
            async with client.get_lock("k"):
                assert other.statistics().waiters == 0
    snapshot = await client.get_lock("k").inspect()
    assert (snapshot.holders, snapshot.waiters or ()) == ((), ())


async def test_a_cancelled_first_acquire_leaves_nothing(new_client: NewClient) -> None:
    for number in range(10):
        client = new_client()
        task = asyncio.create_task(client.get_lock("k").acquire())
        await asyncio.sleep(0.002 * number)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).release()
        async with asyncio.timeout(SOON):
            async with client.get_lock("k"):
                pass


async def test_a_cancelled_release_is_carried_out(client: Client, other: Client) -> None:
    for number in range(8):
        lease = await client.get_lock("k").acquire()
        task = asyncio.create_task(lease.release())
        await asyncio.sleep(0.0005 * number)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        async with asyncio.timeout(SOON):
            async with other.get_lock("k"):
                pass


async def test_a_closing_client_gives_everything_back(
    new_client: NewClient, other: Client, caplog: pytest.LogCaptureFixture
) -> None:
    client = new_client()
    lease = await client.get_lock("k").acquire()
    waiter = asyncio.create_task(client.get_lock("k").acquire())
    await is_waiting(client, 1)
    await client.aclose()
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await waiter
    with pytest.raises(ClientClosedError):
        await client.get_lock("k").acquire()
    assert lease.lost
    assert "closing while still holding lock 'k'" in caplog.text
    async with asyncio.timeout(SOON):
        async with other.get_lock("k"):
            pass


async def test_a_closed_client_opens_again_with_a_new_id(new_client: NewClient) -> None:
    client = new_client()
    async with client:
        before = client.id
        async with client.get_lock("k"):
            pass
    async with client:
        assert client.id != before
        async with client.get_lock("k") as lease:
            assert lease.owner.startswith(client.id)


def test_a_client_moves_to_the_next_event_loop(backend: Backend) -> None:
    client = backend.client()

    async def use() -> None:
        async with client.get_lock("k"):
            pass

    async def close() -> None:
        await use()
        await client.aclose()

    asyncio.run(use())
    asyncio.run(use())
    asyncio.run(close())


async def test_listeners_and_statistics(new_client: NewClient, other: Client) -> None:
    heard: list[str] = []

    told = [name for name in vars(Listener) if not name.startswith("_")]
    notes = {name: lambda event, name=name: heard.append(name) for name in told}
    client = new_client(listener=SimpleNamespace(**notes))
    lease = await other.get_lock("k").acquire()
    waiter = asyncio.create_task(client.get_lock("k").acquire())
    await until(lambda: heard)
    await lease.release()
    await (await waiter).release()
    assert heard == ["wait_started", "wait_ended", "acquired", "released"]
    statistics = client.statistics()
    assert (statistics.acquires, statistics.waits, statistics.held_leases) == (1, 1, 0)
    assert statistics.commands_sent >= 2
    await client.ping()


async def test_inspect_says_who_holds_it(client: Client, other: Client, backend: Backend) -> None:
    assert (await client.get_lock("k").inspect()).holders == ()
    async with client.get_lock("k") as lease:
        (holder,) = (await other.get_lock("k").inspect()).holders
        assert holder.owner == lease.owner
        assert 0 < holder.remaining <= backend.session
        (own,) = (await client.get_lock("k").inspect()).holders
        task = asyncio.current_task()
        assert task is not None
        assert own.task == task.get_name()
        left = await other.get_lock("k").remaining()
        assert left is not None
        assert 0 < left <= backend.session


async def test_it_decorates_a_function(client: Client, other: Client) -> None:
    lock: LockLike = client.get_lock("report:{day}")

    @lock
    async def report(day: str) -> bool:
        return await other.get_lock(f"report:{day}").locked()

    assert await report("monday")
    assert not await other.get_lock("report:monday").locked()


async def test_many_tasks_on_one_name(client: Client, other: Client) -> None:
    async def work(one: Client) -> None:
        async with one.get_lock("k"):
            pass

    async with asyncio.timeout(120):
        await asyncio.gather(*[work(one) for one in (client, other) for _ in range(100)])
    assert client.statistics().acquires == 100


async def test_what_was_released_late_raises(client: Client, other: Client) -> None:
    await client.ping()
    lease = await client.get_lock("k").acquire(lease_time=2)
    await lease.wait_lost()
    async with asyncio.timeout(SOON):
        mine = await other.get_lock("k").acquire()
    with pytest.raises(RedissonError):
        await lease.release()
    assert await other.get_lock("k").locked()
    await mine.release()
    await is_free(client)
