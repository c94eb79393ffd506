"""A client and its event loops: one after the other, and their ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from redisson_py import ClientClosedError, Lease, Redisson
from redisson_py._loop import discard
from redisson_py._stores.requests import Ping
from tests.stores.backends import LEASE, Backend, Client
from tests.stores.traces import SOON, Loops, nothing_left, use
from tests.support.waiting import until

#: Seconds of a lease that is renewed during a cleanup, and of the cleanup, which is longer.
RENEWED = 3 * LEASE
CLEANUP = RENEWED + 0.4

pytestmark = pytest.mark.usefixtures("used_before")


async def wait_once(client: Client, other: Client) -> None:
    """Have the client wait for it, so that it has all that it needs for waiting."""
    lease = await other.get_lock("k").acquire()
    waiter = asyncio.create_task(client.get_lock("k").acquire())
    await until(lambda: client.statistics().waiters == 1)
    # Until the store has said that it is busy.
    await asyncio.sleep(0.1)
    await lease.release()
    async with asyncio.timeout(SOON):
        await (await waiter).release()


async def is_free(backend: Backend, *names: str) -> bool:
    """Whether a new client gets all these names at once."""
    # It keeps the first while it takes the last.
    async with backend.client(lease_time=10 * LEASE, command_timeout=30) as client:
        leases = [await client.get_lock(each).try_acquire() for each in names]
        for each in leases:
            if each is not None:
                await each.release()
    return None not in leases


# One event loop after the other.


@pytest.mark.parametrize("ends", ["run", "run_and_close"])
def test_a_client_goes_on_in_the_next_loop(backend: Backend, loops: Loops, ends: str) -> None:
    """Whether its tasks were cancelled at the end of the one before, or that was only closed."""
    run = getattr(loops, ends)
    client, other = backend.client(), backend.client()

    async def close() -> None:
        await use(client)
        await client.aclose()
        await other.aclose()

    with nothing_left():
        for _ in range(3):
            run(wait_once(client, other))
        run(use(client))
        run(close())


def test_clients_that_nobody_closes_leave_nothing(backend: Backend, loops: Loops) -> None:
    async def program() -> None:
        for number in range(3):
            await use(backend.client(), f"k{number}")
            await wait_once(backend.client(), backend.client())

    with nothing_left():
        loops.run(program())


def test_requests_under_way_are_left_behind(backend: Backend, loops: Loops) -> None:
    """The event loop is closed while the store is asked."""
    client = backend.client()

    async def ask() -> None:
        await use(client)
        await asyncio.gather(*[client.ping() for _ in range(5)])
        # Nobody waits for the answers.
        for _ in range(5):
            if isinstance(client, Redisson):
                client._executor.command(b"", "PING")
            else:
                client._executor.start(Ping())
        await asyncio.sleep(0)

    with nothing_left():
        for _ in range(3):
            loops.run_and_close(ask())
        loops.run(client.aclose())


def test_a_hold_does_not_move(backend: Backend, loops: Loops) -> None:
    client, lock = backend.client(), "held-at-the-end"
    kept: list[Lease] = []

    async def hold() -> None:
        kept.append(await client.get_lock(lock).acquire())

    async def move() -> None:
        with pytest.raises(ClientClosedError, match=f"while it held lock '{lock}'"):
            await use(client)
        await client.aclose()
        assert kept[0].lost
        with pytest.raises(ClientClosedError):
            await use(client)
        async with client:
            await client.get_lock(lock).force_release()
            await use(client, lock)

    with nothing_left():
        loops.run_and_close(hold())
        loops.run(move())


def test_waiters_do_not_move(backend: Backend, loops: Loops) -> None:
    client, other = backend.client(), backend.client()
    waiters: list[asyncio.Task[Any]] = []

    async def wait() -> None:
        await client.ping()
        await other.get_lock("k").acquire()
        waiters.append(asyncio.create_task(client.get_lock("k").acquire()))
        await until(lambda: client.statistics().waiters == 1)

    async def move() -> None:
        with pytest.raises(ClientClosedError, match="while tasks waited"):
            await use(client)
        discard(waiters.pop())
        await client.aclose()
        await other.aclose()
        async with backend.client() as third:
            await third.get_lock("k").force_release()

    loops.run_and_close(wait())
    loops.run(move())


def test_a_client_of_a_module_opens_in_each_run(backend: Backend, loops: Loops) -> None:
    client, ids = backend.client(), set()

    async def program() -> None:
        async with client:
            await use(client)
            ids.add(client.id)
        with pytest.raises(ClientClosedError):
            await use(client)

    with nothing_left():
        for _ in range(3):
            loops.run(program())
    assert len(ids) == 3


def test_another_loop_that_still_runs_is_refused(backend: Backend, loops: Loops) -> None:
    client = backend.client()

    async def first() -> None:
        await use(client)

        def second() -> None:
            with pytest.raises(ClientClosedError, match="another event loop"):
                loops.run(use(client))
            with pytest.raises(ClientClosedError, match="another event loop"):
                loops.run(client.aclose())

        await asyncio.to_thread(second)
        await use(client)
        await client.aclose()

    loops.run(first())


def test_one_that_was_closed_opens_in_another_loop(backend: Backend, loops: Loops) -> None:
    """Also while the event loop in which it was closed still runs: nothing of it is there."""
    client = backend.client()

    async def again() -> None:
        async with client:
            await use(client)

    async def first() -> None:
        await use(client)
        await client.aclose()
        await asyncio.to_thread(loops.run, again())
        await again()

    with nothing_left():
        loops.run(first())


# The end of an event loop: `asyncio.run` cancels every task, those of the client too.


async def clean_up(client: Client, lease: Lease, done: list[str]) -> None:
    """Take longer than a lease, and then still hold it; also use the client."""
    for _ in range(10):
        await asyncio.sleep(CLEANUP / 10)
    lease.check()
    (holder,) = (await client.get_lock(lease.name).inspect()).holders
    assert holder.owner == lease.owner
    name = str(lease.name)
    async with client.get_lock(f"inside {name}"):
        done.append(name)


def test_blocks_that_clean_up_stay_protected(backend: Backend, loops: Loops) -> None:
    """Of tasks, and of a generator, which the loop closes when all tasks have ended."""
    client, other, third = (backend.client(lease_time=RENEWED) for _ in range(3))
    done: list[str] = []
    kept: list[object] = []

    async def block(name: str, client: Client) -> None:
        async with client.get_lock(name) as lease:
            try:
                await asyncio.sleep(3600)
            finally:
                await clean_up(client, lease, done)

    async def generator(client: Client) -> AsyncIterator[None]:
        async with client.get_lock("generator") as lease:
            try:
                yield
            finally:
                lease.check()
                async with client.get_lock("inside generator"):
                    done.append("generator")

    async def alone() -> AsyncIterator[None]:
        async with third.get_lock("alone"):
            try:
                yield
            finally:
                done.append("alone")

    async def program() -> None:
        tasks = [asyncio.create_task(block(name, client)) for name in ("a", "b")]
        tasks.append(asyncio.create_task(block("c", other)))
        suspended = [generator(client), alone()]
        for each in suspended:
            await anext(each)
        kept.extend([*suspended, *tasks])
        await until(lambda: client.statistics().held_leases == 3)
        await until(lambda: other.statistics().held_leases == 1)

    with nothing_left():
        loops.run(program())
        assert sorted(done) == ["a", "alone", "b", "c", "generator"]
        kept.clear()
        assert loops.run(is_free(backend, "a", "b", "c", "generator", "alone"))
        for each in (client, other, third):
            loops.run(use(each))


NAMES = [f"k{number}" for number in range(50)]


async def releasing(client: Client, other: Client) -> list[asyncio.Future[Any]]:
    leases = [await client.get_lock(each).acquire() for each in NAMES[:20]]
    return [asyncio.ensure_future(each.release()) for each in leases]


async def closing(client: Client, other: Client) -> list[asyncio.Future[Any]]:
    await client.get_lock(NAMES[0]).acquire()
    return [asyncio.ensure_future(client.aclose())]


async def acquiring(client: Client, other: Client) -> list[asyncio.Future[Any]]:
    """More than there are connections, and no more than a busy server undoes in a second."""
    await client.ping()
    return [asyncio.ensure_future(client.get_lock(each).acquire()) for each in NAMES]


async def waiting(client: Client, other: Client) -> list[asyncio.Future[Any]]:
    await other.get_lock(NAMES[0]).acquire()
    waiter = asyncio.ensure_future(client.get_lock(NAMES[0]).acquire())
    await until(lambda: client.statistics().waiters == 1)
    await asyncio.sleep(0.1)
    return [waiter]


@pytest.mark.parametrize("start", [releasing, closing, acquiring, waiting])
def test_what_is_under_way_at_the_end_is_carried_out_or_undone(
    backend: Backend, loops: Loops, start: Callable[..., Awaitable[list[asyncio.Future[Any]]]]
) -> None:
    with nothing_left():
        for iterations in (0, 1, 3, 8):
            kept: list[asyncio.Future[Any]] = []

            async def program(iterations: int, kept: list[asyncio.Future[Any]]) -> None:
                kept.extend(await start(backend.client(), backend.client()))
                for _ in range(iterations):
                    await asyncio.sleep(0)

            loops.run(program(iterations, kept))
            assert loops.run(is_free(backend, *NAMES))
            for each in kept:
                assert each.done()
                each.cancelled() or each.exception()


def test_what_no_block_releases_is_released(
    backend: Backend, loops: Loops, caplog: pytest.LogCaptureFixture
) -> None:
    client = backend.client()
    kept: list[Lease] = []

    async def program() -> None:
        kept.append(await client.get_lock("k").acquire())

    with nothing_left():
        loops.run(program())
        assert kept[0].lost
        assert "closing while still holding lock 'k'" in caplog.text
        assert loops.run(is_free(backend, "k"))
        # It may go on in the next one.
        loops.run(use(client))


async def test_it_says_that_its_loop_was_shut_down(backend: Backend) -> None:
    """A program cancels every task of its loop, and goes on."""
    client = backend.client()
    await use(client)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await until(lambda: client._life.closed)
    with pytest.raises(ClientClosedError, match="its event loop was shut down"):
        await use(client)
    await client.aclose()
    with pytest.raises(ClientClosedError):
        await use(client)
    async with client:
        await use(client)
