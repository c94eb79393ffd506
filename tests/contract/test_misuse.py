"""Calls that a newcomer writes and that cannot work say what to write instead."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import pickle
import traceback
import weakref
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import anyio
import pytest

from redisson_py import Lease, Redisson
from redisson_py._arguments import RENAMED, WITHOUT
from redisson_py.locks.lock_like import LockLike
from tests.contract.conftest import locks, of_redis
from tests.contract.servers import Servers
from tests.support.kinds import MakeLock
from tests.support.waiting import until_waiting

#: Nothing listens there: any command would fail with another error.
NOWHERE = "redis://127.0.0.1:1"

#: Arguments of other libraries, and what the error must name.
FOREIGN = {
    "blocking_timeout": "timeout=",
    "blocking": "try_acquire()",
    "sleep": "timeout=",
    "thread_local": "current task",
    "expire": "lease_time=",
    "auto_renewal": "lease_time=",
    "ttl": "lease_time=",
    "lock_timeout": "lease_time=",
    "auto_release_time": "lease_time=",
    "leaseTime": "lease_time=",
    "waitTime": "timeout=",
    "raise_on_release_error": "on_release_error",
    "token": "lease.owner",
    "id": "lease.owner",
    "retry_count": "timeout=",
}

GETTERS: dict[str, Callable[..., Any]] = {
    "get_lock": lambda client, *more, **given: client.get_lock("k", *more, **given),
    "get_fair_lock": lambda client, *more, **given: client.get_fair_lock("k", *more, **given),
    "get_fenced_lock": lambda client, *more, **given: client.get_fenced_lock("k", *more, **given),
    "get_read_write_lock": lambda client, *more, **given: client.get_read_write_lock(
        "k", *more, **given
    ),
    "get_semaphore": lambda client, *more, **given: client.get_semaphore("k", 2, *more, **given),
    "get_permit_expirable_semaphore": lambda client, *more, **given: (
        client.get_permit_expirable_semaphore("k", 2, *more, **given)
    ),
    "get_latch": lambda client, *more, **given: client.get_latch("k", 2, *more, **given),
    "get_barrier": lambda client, *more, **given: client.get_barrier("k", 2, *more, **given),
}
getters = pytest.mark.parametrize("get", GETTERS.values(), ids=GETTERS)


def refusal(call: Callable[..., Any], *args: Any, **given: Any) -> str:
    with pytest.raises(TypeError) as raised:
        call(*args, **given)
    assert raised.value.__cause__ is None
    return str(raised.value)


async def test_an_argument_of_another_library(make_lock: MakeLock, servers: Servers) -> None:
    client = servers.unconnected()
    lock = make_lock(client)
    for call in (lock.acquire, lock.try_acquire, lock.hold, lock):
        for word, ours in FOREIGN.items():
            text = refusal(call, **{word: 5})
            assert f"has no argument {word!r}" in text
            assert ours in text
        every = refusal(call, **dict.fromkeys([*RENAMED, *WITHOUT], 5))
        assert all(f"{word!r}: " in every for word in [*RENAMED, *WITHOUT])
    assert client.statistics().commands_sent == 0


@getters
async def test_an_argument_of_another_library_for_what_is_made(get: Callable[..., Any]) -> None:
    client = Redisson.from_url(NOWHERE)
    for word, ours in FOREIGN.items():
        text = refusal(get, client, **{word: 5})
        assert f"has no argument {word!r}" in text
        assert ours in text


async def test_times_given_to_the_lock() -> None:
    client = Redisson.from_url(NOWHERE)
    for get in (client.get_lock, client.get_fair_lock, client.get_fenced_lock):
        # As redis-py's `lock(name, timeout)`.
        for text in (refusal(get, "k", timeout=10), refusal(get, "k", 10)):
            assert "acquire(), try_acquire() and hold()" in text
            assert text.endswith("What redis-py calls timeout is lease_time= here")
        assert "acquire(), try_acquire() and hold()" in refusal(get, "k", lease_time=10)
    assert "acquire(), try_acquire() and hold()" in refusal(client.get_multi_lock, timeout=10)


@getters
async def test_no_lock_takes_a_time(get: Callable[..., Any]) -> None:
    client = Redisson.from_url(NOWHERE)
    waits = {GETTERS["get_latch"], GETTERS["get_barrier"]}
    where = "wait()" if get in waits else "acquire(), try_acquire() and hold()"
    assert where in refusal(get, client, timeout=10)
    if get not in {*waits, GETTERS["get_semaphore"]}:
        assert where in refusal(get, client, lease_time=10)
    else:
        assert "the lease_time= of the client" in refusal(get, client, lease_time=10)


async def test_an_option_of_the_client() -> None:
    client = Redisson.from_url(NOWHERE)
    assert "Redisson.from_url(url, on_lost=...)" in refusal(client.get_lock, "k", on_lost="raise")
    assert "did you mean 'reentrant'?" in refusal(client.get_lock, "k", re_entrant=False)
    assert "its arguments are name, reentrant=" in refusal(client.get_lock, "k", xyz=False)
    # By position, and no number of seconds.
    assert refusal(client.get_lock, "k", False).endswith("its arguments are name, reentrant=")
    sides = refusal(client.get_read_write_lock, "k", "writers")
    assert sides.endswith("does not take 'writers' by position: its arguments are name, prefer=")


async def test_what_is_missing_is_python_s_error() -> None:
    client = Redisson.from_url(NOWHERE)
    assert refusal(client.get_lock).endswith("missing 1 required positional argument: 'name'")


@locks
async def test_a_time_by_position(lock: LockLike) -> None:
    for call, name in (
        (lock.acquire, "acquire"),
        (lock.try_acquire, "try_acquire"),
        (lock.hold, "hold"),
    ):
        text = refusal(call, 5)
        assert text == (
            f"{name}() does not take 5 by position: write {name}(timeout=5), the time to wait"
        )
        # As `threading.Lock` has it.
        assert "try_acquire() asks once" in refusal(call, False)


async def test_a_time_by_position_after_a_number() -> None:
    client = Redisson.from_url(NOWHERE)
    semaphore = client.get_semaphore("s", 5)
    assert "write acquire(5, timeout=10)" in refusal(semaphore.acquire, 5, 10)
    assert "write hold(5, timeout=10)" in refusal(semaphore.hold, 5, 10)
    expirable = client.get_permit_expirable_semaphore("p", 5)
    assert "write acquire(timeout=5)" in refusal(expirable.acquire, 5)
    assert "write acquire_many(2, timeout=5)" in refusal(expirable.acquire_many, 2, 5)
    assert "timeout=" in refusal(client.ping, 5)
    assert "write timeout=" in refusal(client.get_latch("l").wait, blocking_timeout=5)
    assert "write timeout=" in refusal(client.get_barrier("b", 2).wait, blocking_timeout=5)


async def test_a_decorator_with_arguments(make_lock: MakeLock, servers: Servers) -> None:
    lock = make_lock(servers.unconnected())
    for text in (refusal(lock), refusal(lock, timeout=5)):
        assert "`@lock.hold(timeout=5)`" in text


# Where `await` or `async` is missing.


async def test_what_is_acquired_is_no_block(make_lock: MakeLock, client: Redisson) -> None:
    lock = make_lock(client)
    attempts: list[tuple[Callable[[], Any], str]] = [
        (lambda: lock.acquire(timeout=1), "timeout=1"),
        (lambda: lock.try_acquire(), "timeout=0"),
        (lambda: lock.try_acquire(timeout=2), "timeout=2"),
    ]
    for attempt, hold in attempts:
        with pytest.raises(TypeError, match=rf"write `async with \w+\.hold\(.*{hold}\):`"):
            async with attempt():
                pass
        with pytest.raises(TypeError, match=r"write `async with"):
            with attempt():
                pass
        async with AsyncExitStack() as stack:
            with pytest.raises(TypeError, match=r"write `async with"):
                await stack.enter_async_context(attempt())
    assert not await lock.locked()


async def test_acquire_without_options_names_the_block_itself() -> None:
    client = Redisson.from_url(NOWHERE)
    made: list[tuple[Any, str]] = [
        (client.get_lock("k"), "lock"),
        (client.get_semaphore("s"), "semaphore"),
    ]
    for each, name in made:
        with pytest.raises(TypeError, match=f"write `async with {name}:`"):
            async with each.acquire():
                pass
    many: Any = client.get_permit_expirable_semaphore("p").acquire_many(2)
    with pytest.raises(TypeError, match=r"`permits = await semaphore.acquire_many\(2\)`"):
        async with many:
            pass


@of_redis
async def test_with_without_async(make_lock: MakeLock, client: Redisson) -> None:
    lock: Any = make_lock(client)
    lock = getattr(lock, "_semaphore", lock)
    lease = await lock.acquire()
    barrier = client.get_barrier("b", 2)
    blocks: list[Any] = [lock, lock.hold(timeout=1), lease, barrier, Redisson.from_url(NOWHERE)]
    for block in blocks:
        with pytest.raises(TypeError, match="needs `async with`"):
            with block:
                pass
        with ExitStack() as stack, pytest.raises(TypeError, match="needs `async with`"):
            stack.enter_context(block)
    await lease.release()


async def test_a_read_write_lock_is_no_block() -> None:
    both: Any = Redisson.from_url(NOWHERE).get_read_write_lock("k")
    with pytest.raises(TypeError, match=r"`async with lock.read_lock\(\):`"):
        async with both:
            pass
    with pytest.raises(TypeError, match=r"`async with lock.write_lock\(\):`"):
        with both:
            pass


# An acquire is a coroutine for everybody else.


async def test_an_acquire_is_a_coroutine(make_lock: MakeLock, client: Redisson) -> None:
    lock = make_lock(client)
    assert inspect.iscoroutinefunction(lock.acquire)
    assert inspect.iscoroutinefunction(lock.try_acquire)
    acquiring = lock.acquire()
    assert inspect.iscoroutine(acquiring)
    assert asyncio.iscoroutine(acquiring)
    assert inspect.getcoroutinestate(acquiring) == inspect.CORO_CREATED
    assert "acquire" in repr(acquiring)
    assert weakref.ref(acquiring)() is acquiring
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot pickle .*acquire"):
            leave(acquiring)
    # As the repr of a task asks from Python 3.12 on.
    assert bool(acquiring)
    await (await acquiring).release()
    with pytest.raises(RuntimeError, match="already awaited"):
        await acquiring


async def test_an_acquire_in_a_task_of_its_own(make_lock: MakeLock, client: Redisson) -> None:
    lock = make_lock(client)

    async def in_a_group() -> Lease:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(lock.acquire())
        return task.result()

    for acquire in (
        lambda: asyncio.create_task(lock.acquire()),
        lambda: asyncio.ensure_future(lock.acquire()),
        lambda: asyncio.wait_for(lock.acquire(), 30),
        lambda: asyncio.shield(lock.acquire()),
        in_a_group,
    ):
        await (await acquire()).release()
    (lease,) = await asyncio.gather(lock.acquire())
    await lease.release()


async def test_the_error_of_a_task_has_no_frame_around_its_coroutine(client: Redisson) -> None:
    """Such a frame would keep those of the event loop, and what they refer to."""
    lock = client.get_lock("k")
    async with lock:
        task = asyncio.create_task(lock.acquire())
        await until_waiting(client, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert names[:2] == [inspect.currentframe().f_code.co_name, "acquire"]  # type: ignore[union-attr]


async def test_an_acquire_in_a_task_of_anyio(client: Redisson) -> None:
    lock = client.get_lock("k")
    async with lock, anyio.create_task_group() as group:
        group.start_soon(lock.acquire)
        await until_waiting(client, 1)
        # It asks a coroutine for its state before it cancels it.
        group.cancel_scope.cancel()
    assert not await lock.locked()


async def test_an_acquire_that_nobody_awaits_is_warned_about(
    make_lock: MakeLock, servers: Servers
) -> None:
    lock = make_lock(servers.unconnected())

    def forget() -> None:
        del acquiring[:]
        gc.collect()

    acquiring = [lock.acquire()]
    with pytest.warns(RuntimeWarning, match="acquire' was never awaited"):
        forget()


@locks
async def test_a_cancelled_acquire_in_a_task_leaves_nothing(
    make_lock: MakeLock, client: Redisson
) -> None:
    lock = make_lock(client)
    async with lock:
        task = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not await lock.locked()
