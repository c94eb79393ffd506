"""Several event loops, threads with loops, forks, and a client that is closed and opened again."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import pytest
import redis as redis_py
import uvloop
from redis.asyncio import Redis

from redisson_py import (
    ClientClosedError,
    LeaseLostError,
    NotHeldError,
    Redisson,
)
from tests.fixtures.client import ClientFactory
from tests.support.counting import Counted
from tests.support.waiting import until_async, until_waiting

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
        for index, first in enumerate(kinds)
        for name in (first, *(each for after in kinds[index + 1 :] for each in (first, after)))
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


def test_lease_of_a_closed_loop_does_not_move_until_it_has_ended(server_url: str) -> None:
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


@pytest.mark.heart
async def test_two_threads_with_their_loops_exclude_each_other(server_url: str) -> None:
    sections: list[int] = []
    inside: int | None = None
    errors: list[str] = []
    ready = threading.Barrier(2)

    def both_were_served() -> bool:
        changes = sum(one != other for one, other in itertools.pairwise(sections))
        return min(sections.count(0), sections.count(1)) >= 100 and changes >= 20

    async def work(client: Redisson, number: int) -> None:
        nonlocal inside
        while not both_were_served():
            async with client.get_lock("k").hold(timeout=20):
                if inside is not None:
                    errors.append(f"{number} got in while {inside} was inside")
                inside = number
                await asyncio.sleep(0)
                if inside != number:
                    errors.append(f"{inside} got in while {number} was inside")
                inside = None
                sections.append(number)

    async def contend(number: int) -> None:
        async with Redisson.from_url(server_url) as client:
            await client.ping()
            await asyncio.to_thread(ready.wait)
            await asyncio.gather(*[work(client, number) for _ in range(4)])

    await asyncio.gather(*[asyncio.to_thread(asyncio.run, contend(number)) for number in range(2)])
    assert errors == []
    assert both_were_served()


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


def said_by(calls: dict[str, Use]) -> dict[str, str]:
    """Make each call in a loop of its own; return what the client said, or done."""

    async def made(call: Use) -> str:
        try:
            async with asyncio.timeout(30):
                await call()
        except ClientClosedError as error:
            return str(error)
        return "done"

    return {name: asyncio.run(made(call)) for name, call in calls.items()}


@pytest.mark.heart
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_every_use_after_a_fork_is_refused_and_sends_nothing(
    client: Redisson, redis: Redis
) -> None:
    lock, fenced = client.get_lock("k"), client.get_fenced_lock("f")
    token = await (await client.get_lock("given").acquire()).hand_over()
    async with lock as lease:
        uses: dict[str, Use] = {
            "acquire": lock.acquire,
            "try_acquire": lock.try_acquire,
            "acquire another": fenced.acquire,
            "release": lock.release,
            "release the lease": lease.release,
            "extend": lambda: lease.extend(5),
            "hand_over": lease.hand_over,
            "adopt": lambda: client.adopt(token),
            "locked": lock.locked,
            "inspect": lock.inspect,
            "force_release": lock.force_release,
            "ping": client.ping,
            "aclose": client.aclose,
        }
        await redis.ping()
        async with Counted(redis) as counted:
            (said,) = in_children(1, lambda: said_by(uses))
        assert {name: text for name, text in said.items() if "before a fork" not in text} == {}
        assert counted.calls == {}
        assert await lock.owned()
        assert not lease.lost
    await (await client.adopt(token)).release()
    assert client.statistics().connections == 1


@pytest.mark.heart
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_child_uses_its_own_client_and_the_parent_gets_its_own_answers(
    client: Redisson, clients: ClientFactory, server_url: str, redis: Redis
) -> None:
    # Leases of different lengths, so that an answer to another question would show.
    locks = [client.get_lock(f"k{n}") for n in range(50)]
    leases = [await lock.acquire(lease_time=100 * n + 100) for n, lock in enumerate(locks)]
    other = clients()
    near = await other.get_lock("near").acquire()
    waiting = asyncio.create_task(client.get_lock("near").acquire(timeout=20))
    await until_async(redis.pubsub_channels)

    async def work() -> None:
        async with Redisson.from_url(server_url) as own:
            async with own.get_lock("k").hold(timeout=10):
                pass

    # Written and not yet answered, or not yet even written, when the child comes to be.
    asking = [asyncio.create_task(lock.remaining()) for lock in locks]
    await asyncio.sleep(0)
    calls: dict[str, Use] = {"own": work, "parent's": client.ping}
    (said,) = in_children(1, lambda: said_by(calls))
    assert said["own"] == "done"
    assert "before a fork" in said["parent's"]
    for number, remaining in enumerate(await asyncio.gather(*asking)):
        assert remaining is not None
        assert 0 < remaining - 100 * number <= 100
    await near.release()
    await (await waiting).release()
    for lease in leases:
        await lease.release()
    assert client.statistics().connections == 1


@pytest.mark.heart
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_child_goes_on_with_what_its_parent_has_handed_over(
    client: Redisson, server_url: str
) -> None:
    lock = client.get_fenced_lock("k")
    async with lock as lease:
        token = await lease.hand_over()

    async def work() -> None:
        async with Redisson.from_url(server_url) as own, await own.adopt(token) as adopted:
            assert adopted.token == lease.token
            assert adopted.owner.startswith(own.id)

    calls: dict[str, Use] = {"parent's": lambda: client.adopt(token), "own": work}
    (said,) = in_children(1, lambda: said_by(calls))
    assert "before a fork" in said["parent's"]
    assert said["own"] == "done"
    with pytest.raises(NotHeldError, match="already adopted"):
        await client.adopt(token)
    async with lock as after:
        assert after.token > lease.token
