"""Every lock-like thing, and its `hold()`, written above an async function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from redisson_py import AcquireTimeoutError, LeaseLostError, Redisson
from redisson_py._time import now
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import exclusive, exclusive_locks, locks
from tests.contract.servers import Servers
from tests.fixtures.client import ClientFactory
from tests.support.kinds import Kind, MakeLock

TEMPLATE = "report:{day}"


class Presence:
    """Counts the tasks inside a body, and keeps them there until they may leave."""

    def __init__(self) -> None:
        self.inside = self.most = self.calls = 0
        self.leave = asyncio.Event()

    async def stay(self) -> None:
        self.calls += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.leave.wait()
        finally:
            self.inside -= 1

    async def crowded(self, count: int) -> None:
        async with asyncio.timeout(30):
            while self.inside < count:
                await asyncio.sleep(0.001)


def work_under(lock: LockLike) -> tuple[Presence, Callable[[str], Coroutine[Any, Any, None]]]:
    presence = Presence()

    @lock
    async def work(day: str) -> None:
        await presence.stay()

    return presence, work


async def test_a_call_holds_the_lock_that_its_arguments_name(
    make_lock: MakeLock, client: Redisson
) -> None:
    @make_lock(client, TEMPLATE)
    async def report(day: str, part: int = 1) -> tuple[bool, bool]:
        """Make a report."""
        return await named.locked(), await make_lock(client, "report:sunday").locked()

    named = make_lock(client, "report:monday")
    assert await report("monday") == (True, False)
    assert await report(day="monday", part=2) == (True, False)
    assert not await named.locked()
    assert report.__name__ == "report"
    assert report.__doc__ == "Make a report."
    assert inspect.iscoroutinefunction(report)


@locks
async def test_a_name_without_fields_is_held_as_it_is(lock: LockLike) -> None:
    @lock
    async def work() -> int:
        return await lock.hold_count()

    assert [await work(), await work()] == [1, 1]
    assert not await lock.locked()


@pytest.mark.usefixtures("old_busy_counts")
@exclusive_locks
async def test_options_are_those_of_every_call(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    calls = 0

    async def report(day: str) -> float:
        nonlocal calls
        calls += 1
        return await make_lock(client, f"report:{day}").remaining() or 0.0

    lock = make_lock(client, TEMPLATE)
    # One lease that does not end on a busy machine, and one that ends.
    patient = lock.hold(timeout=30, lease_time=5)(report)
    hasty = lock.hold(timeout=0.5, lease_time=5)(report)
    for day in ("monday", "sunday"):
        began = now()
        servers.assert_left(await patient(day), 5, began)
        async with make_lock(clients(), f"report:{day}"):
            with pytest.raises(AcquireTimeoutError):
                await hasty(day)
        began = now()
        servers.assert_left(await patient(day), 5, began)
    assert calls == 4


@exclusive
async def test_equal_arguments_exclude_each_other_also_between_clients(
    make_lock: MakeLock, clients: ClientFactory, servers: Servers
) -> None:
    client = clients()
    lock, far = make_lock(client, TEMPLATE), make_lock(clients(), TEMPLATE)
    presence = Presence()

    async def work(day: str) -> None:
        await presence.stay()

    near, again, elsewhere = lock(work), lock(work), far(work)
    async with asyncio.TaskGroup() as group:
        for each in (near, near, again):
            group.create_task(each("monday"))
        await presence.crowded(1)
        await servers.until_waiting(client, 2)
        group.create_task(elsewhere("monday"))
        presence.leave.set()
    assert (presence.calls, presence.most) == (4, 1)


async def test_other_arguments_exclude_nobody(make_lock: MakeLock, client: Redisson) -> None:
    presence, work = work_under(make_lock(client, TEMPLATE))
    async with asyncio.TaskGroup() as group:
        for day in ("monday", "tuesday", "sunday"):
            group.create_task(work(day))
        await presence.crowded(3)
        presence.leave.set()
    assert presence.most == 3


@locks
async def test_a_call_inside_a_call_is_a_re_entry(
    kind: Kind, make_lock: MakeLock, client: Redisson
) -> None:
    lock = make_lock(client, "tree:{root}")
    named = make_lock(client, "tree:oak")

    @lock
    async def climb(root: str, height: int) -> int:
        count = await named.hold_count()
        return count if height == 0 else await climb(root, height - 1)

    if kind.reentrant:
        assert await climb("oak", 3) == 4
    else:
        assert await climb("oak", 0) == 1
        with pytest.raises(RuntimeError, match="this task already holds"):
            await climb("oak", 3)
    assert not await named.locked()


async def test_a_loss_cancels_the_body_and_is_raised_by_the_call(
    make_lock: MakeLock, client: Redisson, servers: Servers
) -> None:
    presence, work = work_under(make_lock(client, TEMPLATE))
    task = asyncio.ensure_future(work("monday"))
    await presence.crowded(1)
    await servers.forget("report:monday")
    servers.renew_now(client)
    with pytest.raises(LeaseLostError):
        await task
    assert presence.inside == 0


async def test_a_cancelled_call_releases(make_lock: MakeLock, client: Redisson) -> None:
    presence, work = work_under(make_lock(client, TEMPLATE))
    task = asyncio.ensure_future(work("monday"))
    await presence.crowded(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await make_lock(client, "report:monday").locked()


async def test_what_the_body_raises_goes_through(make_lock: MakeLock, client: Redisson) -> None:
    @make_lock(client, TEMPLATE)
    async def fail(day: str) -> None:
        raise ZeroDivisionError(day)

    with pytest.raises(ZeroDivisionError, match="monday"):
        await fail("monday")
    assert not await make_lock(client, "report:monday").locked()


async def test_methods_are_named_by_their_object(make_lock: MakeLock, client: Redisson) -> None:
    class Account:
        def __init__(self, number: int) -> None:
            self.number = number

        @make_lock(client, "account:{self.number}").hold(timeout=5)
        async def close(self) -> int:
            assert await make_lock(client, f"account:{self.number}").locked()
            return self.number

        @classmethod
        @make_lock(client, "account:{cls.__name__}")
        async def close_all(cls) -> bool:
            return await make_lock(client, "account:Account").locked()

    assert [await Account(1).close(), await Account(2).close()] == [1, 2]
    assert await Account.close_all()


async def test_misuse_is_reported_when_decorating(make_lock: MakeLock, servers: Servers) -> None:
    lock = make_lock(servers.unconnected(), TEMPLATE)

    async def report(night: str) -> None: ...

    def sync(day: str) -> None: ...

    for decorator in (lock, lock.hold(timeout=1)):
        with pytest.raises(ValueError, match="no parameter 'day'"):
            decorator(report)
        with pytest.raises(TypeError, match="async def"):
            decorator(sync)  # type: ignore[arg-type]
