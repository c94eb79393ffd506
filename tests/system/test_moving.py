"""A module-level client lives through event loops, forks, and being closed."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import pytest
import redis as redis_py
import uvloop

from redisson_py import (
    ClientClosedError,
    LeaseLostError,
    NotHeldError,
    Redisson,
)
from tests.support.waiting import until_waiting

Use = Callable[[], Awaitable[object]]


class Things:
    """One of each thing that a client makes, made once."""

    def __init__(self, client: Redisson) -> None:
        read_write = client.get_read_write_lock("rw")
        self.client = client
        self.lock = client.get_lock("k")
        self.held: list[Any] = [
            self.lock,
            client.get_fenced_lock("fenced"),
            client.get_fair_lock("fair"),
            read_write.read_lock(),
            read_write.write_lock(),
            client.get_multi_lock(client.get_lock("m1"), client.get_lock("m2")),
            client.get_red_lock(client.get_lock("r1")),
            client.get_semaphore("semaphore", 2),
            client.get_permit_expirable_semaphore("semaphore-with-ids", 2),
        ]
        self.latch = client.get_latch("latch", 1)
        self.barrier = client.get_barrier("barrier", 2)

    async def use(self) -> None:
        async with asyncio.timeout(20):
            for thing in self.held:
                async with thing as lease:
                    assert lease.remaining > 0
                async with thing.hold(timeout=10):
                    pass
                lease = await thing.try_acquire(timeout=10)
                await lease.release()
            await self.latch.count_down()
            await self.latch.wait()
            await asyncio.gather(self.barrier.wait(), self.barrier.wait())
            await asyncio.gather(*[self.contend() for _ in range(5)])

    async def contend(self) -> None:
        async with self.lock:
            await asyncio.sleep(0)


def in_closed_loop(use: Use, loop: asyncio.AbstractEventLoop | None = None) -> None:
    """Run and close a loop as older programs do, which leaves its tasks pending."""
    loop = loop or asyncio.new_event_loop()
    loop.run_until_complete(use())
    loop.close()


def in_runner(use: Use) -> None:
    with asyncio.Runner() as runner:
        runner.run(use())  # type: ignore[arg-type]
        runner.run(use())  # type: ignore[arg-type]


RUNNERS: dict[str, Callable[[Use], object]] = {
    "asyncio.run": lambda use: asyncio.run(use()),  # type: ignore[arg-type]
    "Runner": in_runner,
    "anyio.run": lambda use: anyio.run(use),
    "uvloop.run": lambda use: uvloop.run(use()),  # type: ignore[arg-type]
    "run_until_complete": in_closed_loop,
}


@contextmanager
def no_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if anything is complained of: a socket, a task, a lease."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    # Python's own word on a loop that was closed with its tasks pending is for `aclose()`d clients.
    assert [str(each.message) for each in said] == []
    assert [record.getMessage() for record in caplog.records if record.levelno > 20] == []


def test_everything_goes_on_in_the_next_loop(
    server_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Every kind of loop follows every kind, its own too."""
    kinds = list(RUNNERS)
    order = [
        name
        for place, first in enumerate(kinds)
        for name in (first, *(each for after in kinds[place + 1 :] for each in (first, after)))
    ]
    order.append(kinds[0])
    assert {*itertools.pairwise(order)} == {*itertools.product(kinds, repeat=2)}
    client = Redisson.from_url(server_url)
    things, client_id = Things(client), client.id
    for name in order:
        with no_warnings(caplog):
            RUNNERS[name](things.use)
    with no_warnings(caplog):
        asyncio.run(client.aclose())
    assert client.id == client_id
    with pytest.raises(ClientClosedError, match="closed"):
        asyncio.run(things.use())


def test_socket_of_a_closed_loop_is_closed(server_url: str) -> None:
    client = Redisson.from_url(server_url, client_name="moving")
    with redis_py.Redis.from_url(server_url) as server:
        for _ in range(3):
            in_closed_loop(client.ping)
        names = [row["name"] for row in server.client_list()]
        assert names.count("moving") == 1
        asyncio.run(client.aclose())


def test_lease_of_a_closed_loop_does_not_move_until_it_is_over(server_url: str) -> None:
    # Long enough for the next loop to ask for it meanwhile.
    client = Redisson.from_url(server_url, lease_time=2)
    lock = client.get_lock("k")
    leases: list[Any] = []
    refusals: list[str] = []

    async def hold() -> None:
        leases.append(await lock.acquire())

    async def again() -> None:
        async with asyncio.timeout(20):
            while not leases[0].lost:
                try:
                    lease = await lock.acquire()
                except ClientClosedError as error:
                    refusals.append(str(error))
                else:
                    assert leases[0].lost, "it was not over by the clock"
                    await lease.release()
                await asyncio.sleep(0.05)
            assert all("while it held lock 'k'" in each for each in refusals)
            # It is lost by the clock, and nothing else is held.
            async with lock as lease:
                assert not lease.lost
            with pytest.raises(NotHeldError):
                await lock.release()

    in_closed_loop(hold)
    asyncio.run(again())


def test_waiters_of_a_closed_loop_do_not_move(server_url: str) -> None:
    client = Redisson.from_url(server_url)
    latch = client.get_latch("latch", 1)
    waiting: list[Any] = []

    async def wait() -> None:
        await client.ping()
        waiting.append(asyncio.create_task(latch.wait()))
        await until_waiting(client, 1)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(wait())
    # What the end of the loop leaves pending; kept alive, so that nobody ends it.
    loop.close()
    with pytest.raises(ClientClosedError, match="while tasks waited"):
        asyncio.run(client.ping())

    # Given up, and opened again, it works.
    async def again() -> None:
        await client.aclose()
        async with client:
            assert client.statistics().waiters == 0
            await latch.count_down()
            await latch.wait()

    asyncio.run(again())
    # Not of interest to anybody any more, asyncio included.
    waiting[0]._log_destroy_pending = False
    with suppress(RuntimeError):
        waiting[0].get_coro().close()


def test_loop_that_may_go_on_keeps_its_client(server_url: str) -> None:
    client = Redisson.from_url(server_url)
    with asyncio.Runner() as runner:
        runner.run(client.ping())

        def elsewhere() -> None:
            with pytest.raises(ClientClosedError, match="another event loop, which is not closed"):
                asyncio.run(client.ping())

        elsewhere()
        runner.run(client.ping())
        runner.run(client.aclose())
    assert client.statistics().connections == 1


def test_opened_again_it_is_another_client(server_url: str) -> None:
    client = Redisson.from_url(server_url)
    things, ids = Things(client), set[str]()

    async def once() -> None:
        async with client:
            ids.add(client.id)
            await things.use()
            lease = await things.lock.acquire()
            assert lease.owner.startswith(client.id)
        with pytest.raises(ClientClosedError):
            await client.ping()
        # Given back when the client was closed; it is not the one that was opened again.
        async with client:
            ids.add(client.id)
            with pytest.raises(LeaseLostError, match="forced"):
                await lease.release()
            assert not await things.lock.locked()
            await things.use()

    for _ in range(2):
        asyncio.run(once())
    assert len(ids) == 4


# Forks.


def in_children(count: int, work: Callable[[], object]) -> list[Any]:
    """Fork, work in each child, and return what each returned, or its error."""
    readers = []
    for _ in range(count):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                try:
                    answer = work()
                except BaseException as error:  # the parent shall see it
                    answer = repr(error)
                os.write(writing, json.dumps(answer).encode())
            finally:
                os._exit(0)
        os.close(writing)
        readers.append((child, reading))
    answers = []
    for child, reading in readers:
        with os.fdopen(reading, "rb") as pipe:
            answers.append(json.loads(pipe.read()))
        os.waitpid(child, 0)
    return answers


async def _opened_and_closed(client: Redisson, things: Things) -> None:
    async with client:
        await client.get_latch("jobs").count_down()
        await things.latch.count_down()


#: What a client did before the fork.
BEFORE: dict[str, Callable[[Redisson, Things], object]] = {
    "never connected": lambda client, things: None,
    "was closed": lambda client, things: asyncio.run(_opened_and_closed(client, things)),
    "its loop has ended": lambda client, things: asyncio.run(things.use()),
}


@pytest.mark.parametrize("before", BEFORE)
def test_children_are_clients_of_their_own(before: str, server_url: str) -> None:
    client = Redisson.from_url(server_url)
    things = Things(client)
    jobs = client.get_latch("jobs")
    BEFORE[before](client, things)

    async def work() -> dict[str, Any]:
        async with client:
            await things.use()
            # Calls with receipts: a child that took the other's for its own would not count.
            for _ in range(10):
                await jobs.count_down()
            async with things.lock as lease:
                return {"id": client.id, "owner": lease.owner}

    with redis_py.Redis.from_url(server_url) as server:
        server.set("jobs", 1000)
        answers = in_children(2, lambda: asyncio.run(work()))
        assert all(isinstance(answer, dict) for answer in answers), answers
        assert len({answer["id"] for answer in answers} | {client.id}) == 3
        assert len({answer["owner"] for answer in answers}) == 2
        assert server.get("jobs") == b"980"
        server.delete("jobs")
