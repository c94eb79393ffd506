"""What ends beside a re-entry, a loss, a deletion, a fork or a shutdown, and the short way."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from types import FunctionType
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import ClientClosedError, LeaseLostError, Redisson
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.cluster_look import plain_client
from tests.support.kinds import KINDS, Stage
from tests.support.streams import answered
from tests.support.waiting import until


async def test_fenced_re_entry_beside_a_release_keeps_the_token(client: Redisson) -> None:
    """The first lease is released by another task while the re-entry is on its way."""
    lock = client.get_fenced_lock("fenced")
    first = await lock.acquire()
    releasing = asyncio.create_task(first.release())
    second = await lock.acquire()
    await releasing
    assert first.token is not None
    assert second.token == first.token
    await second.release()


@pytest.mark.parametrize("kind", ["expirable_semaphore", "semaphore"])
async def test_lost_permits_are_not_kept_for_ever(
    client: Redisson, redis: Redis, kind: str
) -> None:
    """A long-lived task and many permits that end: no state may grow with their number."""
    kept: list[weakref.ref[Any]] = []
    for _ in range(2):
        permit: Any = await KINDS[kind].one(client).acquire()
        kept.append(weakref.ref(permit))
        await redis.flushall()
        with pytest.raises(LeaseLostError):
            await permit.extend(5)
        with pytest.raises(LeaseLostError):
            await permit.release()
    gc.collect()
    assert kept[0]() is None


async def test_permit_of_no_units_is_released_like_any_other(
    client: Redisson, redis: Redis
) -> None:
    """Nor is it renewed, or found abandoned again and again."""
    semaphore = client.get_semaphore("permits", 2)
    async with semaphore:
        pass
    permit = await semaphore.acquire(0)
    await permit.extend(5)
    await permit.release()
    assert not permit.lost
    async with await semaphore.acquire(0) as permit:
        assert not permit.lost
        client._watchdog.check()
    assert client.statistics().losses == 0
    assert client._watchdog._schedule.next_event() is None
    assert await semaphore.available() == 2
    await redis.delete("permits")


async def test_block_of_no_units_ends_without_an_error_when_its_client_was_closed(
    clients: ClientFactory,
) -> None:
    client = clients()
    async with await client.get_semaphore("permits", 2).acquire(0) as permit:
        await client.aclose()
    assert not permit.lost


async def test_closing_while_a_renewal_is_unanswered_says_nothing(
    clients: ClientFactory, proxy: ProxyFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await proxy("held")
    client = clients(url=link.url, lease_time=3)
    renewals: list[object] = []
    send = client._executor.start_batch

    def counted(*args: Any, **values: Any) -> Any:
        renewals.append(None)
        return send(*args, **values)

    monkeypatch.setattr(client._executor, "start_batch", counted)
    said: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    await client.get_lock("held").acquire()
    link.black_hole("down")
    await until(lambda: renewals)
    await client.aclose()
    gc.collect()
    await asyncio.sleep(0)
    assert said == []


async def test_re_entry_of_a_deleted_lock_says_taken(client: Redisson, redis: Redis) -> None:
    lock = client.get_lock("deleted")
    first = await lock.acquire()
    await redis.delete("deleted")
    with pytest.raises(LeaseLostError) as caught:
        await lock.acquire()
    assert caught.value.reason == "taken"
    with pytest.raises(LeaseLostError):
        await first.release()


async def test_lease_pushed_on_an_exit_stack_is_released(stage: Stage) -> None:
    party = stage.party()
    async with AsyncExitStack() as stack:
        lease = await party.thing.acquire()
        stack.push_async_exit(lease)
    assert lease.remaining == 0
    await stage.assert_nothing_held(party)


async def test_multi_lock_outside_a_block_is_given_back_at_shutdown(
    server_url: str, redis: Redis
) -> None:
    """When all tasks have ended, nothing can release it any more, as with a lock."""

    async def forget_it() -> None:
        client = Redisson.from_url(server_url)
        await client.get_multi_lock(client.get_lock("one"), client.get_lock("two")).acquire()

    await asyncio.to_thread(asyncio.run, forget_it())
    assert await redis.exists("one", "two") == 0


async def test_both_leases_of_a_re_entered_multi_lock_are_notified_of_the_loss(
    client: Redisson, redis: Redis
) -> None:
    """The first gives its members back while the second is still to be told."""
    both = client.get_multi_lock(client.get_lock("one"), client.get_lock("two"))
    leases = [await both.acquire() for _ in range(3)]
    await redis.delete("one")
    with pytest.raises(LeaseLostError):
        await client.get_lock("one").acquire()
    assert [lease.lost for lease in leases] == [True] * 3
    await until(lambda: client.statistics().held_leases == 0)
    for lease in leases:
        with pytest.raises(LeaseLostError):
            await lease.release()


WAITS = 1000

#: Objects that a test may leave; a leak would be one for each wait.
FEW = WAITS // 10


def objects() -> Counter[type]:
    """Count the futures and the functions that are alive; tasks are another type."""
    gc.collect()
    found: Counter[type] = Counter()
    for each in gc.get_objects():
        if type(each) in (asyncio.Future, FunctionType):
            found[type(each)] += 1
    return found


async def wait_in_vain(lease: Any, count: int) -> None:
    """Start this many concurrent waits for a loss that does not come."""
    waits = [asyncio.create_task(lease.wait_lost()) for _ in range(count)]
    await asyncio.sleep(0)
    for wait in waits:
        wait.cancel()
    outcomes = await asyncio.gather(*waits, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)


@pytest.mark.parametrize("stage", ["lock", "red_lock", "semaphore"], indirect=True)
async def test_cancelled_waits_leave_nothing(stage: Stage) -> None:
    party = stage.party()
    async with party.thing as lease:
        await wait_in_vain(lease, 10)
        before = objects()
        await wait_in_vain(lease, WAITS)
        after = objects()
    assert {kind.__name__: count for kind, count in (after - before).items() if count > FEW} == {}


forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def said_in_a_child(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, object]) -> str:
    """Fork, go on with the same event loop in the child; return what the work said there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = ""
        try:
            loop.run_until_complete(asyncio.wait_for(work, 5))
            answer = "done"
        except BaseException as error:  # whatever it is, the parent shall see it
            answer = repr(error)
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    work.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        text = answers.read()
    os.waitpid(child, 0)
    return text.decode()


async def test_block_is_the_use_that_creates_a_semaphore(client: Redisson, redis: Redis) -> None:
    """Afterwards the object does not create it again: somebody has deleted it on purpose."""
    semaphore = client.get_semaphore("s", 3)
    async with semaphore:
        pass
    await redis.delete("s")
    try:
        assert await semaphore.available() == 0
        await semaphore.add_permits(2)
        assert await semaphore.available() == 2
    finally:
        await redis.delete("s")


@pytest.mark.more
async def test_end_of_a_lease_is_not_put_off_while_a_crowd_is_renewed(
    clients: ClientFactory,
) -> None:
    """It fell into the pause between two batches of renewals (also before issue 13)."""
    client = clients(lease_time=6)
    watchdog = client._watchdog
    async with AsyncExitStack() as crowd:
        # Renewed two seconds from now, a hundred first, the others a third of a second later.
        for number in range(150):
            await crowd.enter_async_context(client.get_lock(f"{{k}}{number}"))
        # A third of the lease after the first was sent.
        renewed_at = min(hold.lease_until for hold in watchdog.holds) - 4
        short = await client.get_lock("short").acquire(lease_time=renewed_at - now() + 0.1)
        await until(lambda: watchdog.renewals)
        assert short.lost or watchdog._armed_for <= short._ends_at + 0.005
        await short.wait_lost()
        with pytest.raises(LeaseLostError):
            await short.release()


@pytest.mark.parametrize("kind", ["lock", "fenced", "fair", "read_write", "semaphore"])
async def test_name_of_a_wrong_type_is_refused_though_an_equal_one_was_used(
    client: Redisson, kind: str
) -> None:
    makers: dict[str, Any] = {
        "lock": client.get_lock,
        "fenced": client.get_fenced_lock,
        "fair": client.get_fair_lock,
        "read_write": client.get_read_write_lock,
        "semaphore": lambda name: client.get_semaphore(name, 2),
    }
    makers[kind](b"k")
    with pytest.raises(TypeError, match="name must be str or bytes, not memoryview"):
        makers[kind](memoryview(b"k"))


@forks
def test_acquire_after_a_fork_that_goes_on_with_the_loop_is_refused(server_url: str) -> None:
    """Parent and child would have the same owner, and one connection: both would get the lock."""
    loop = asyncio.new_event_loop()
    client = Redisson.from_url(server_url)

    async def use(name: str) -> None:
        async with client.get_lock(name):
            pass

    async def owners() -> list[Any]:
        async with plain_client(server_url) as redis:
            return list(await redis.hkeys("taken in the child"))

    async def keep() -> None:
        await client.get_lock("taken in the child").acquire()

    try:
        loop.run_until_complete(use("k"))
        said = said_in_a_child(loop, keep())
        assert loop.run_until_complete(owners()) == []
        assert ClientClosedError.__name__ in said
        assert "fork" in said
    finally:
        # The parent's own acquisition must be one of its own, and its release must free it.
        loop.run_until_complete(use("taken in the child"))
        loop.run_until_complete(client.aclose())
        loop.close()


@forks
def test_leaving_a_block_after_a_fork_does_not_release_the_parents_hold(server_url: str) -> None:
    loop = asyncio.new_event_loop()
    client = Redisson.from_url(server_url)
    leave = asyncio.Event()

    async def hold() -> None:
        async with client.get_lock("k"):
            await leave.wait()

    async def held() -> int:
        async with plain_client(server_url) as redis:
            return int(await redis.exists("k"))

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(hold())
        while not await held():
            await asyncio.sleep(0.001)
        # Our client has seen the answer too.
        await answered(client)
        return task

    async def end(task: asyncio.Task[None]) -> None:
        leave.set()
        await task

    task = loop.run_until_complete(begin())
    try:
        said = said_in_a_child(loop, end(task))
        assert loop.run_until_complete(held()) == 1
        assert ClientClosedError.__name__ in said
    finally:
        leave.set()
        loop.run_until_complete(asyncio.wait([task]))
        loop.run_until_complete(client.aclose())
        loop.close()
