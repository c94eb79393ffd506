"""Several event loops, several threads, and children of a fork."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from redis.asyncio import Redis

from redisson_py import ClientClosedError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.counting import Counted
from tests.support.waiting import until_async

pytestmark = pytest.mark.heart

Call = Callable[[], Awaitable[object]]


async def use(client: Redisson) -> None:
    async with client.get_lock("k").hold(timeout=10):
        pass


def test_each_loop_has_a_client_of_its_own(server_url: str) -> None:
    async def once() -> None:
        async with Redisson.from_url(server_url) as client:
            await use(client)

    for _ in range(3):
        asyncio.run(once())


async def test_two_threads_with_their_loops_exclude_each_other(server_url: str) -> None:
    sections: list[int] = []
    inside: int | None = None
    errors: list[str] = []
    ready = threading.Barrier(2)

    def both_had_their_turns() -> bool:
        changes = sum(one != other for one, other in pairwise(sections))
        return min(sections.count(0), sections.count(1)) >= 100 and changes >= 20

    async def work(client: Redisson, number: int) -> None:
        nonlocal inside
        while not both_had_their_turns():
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
    assert both_had_their_turns()


async def in_a_child(calls: dict[str, Call]) -> dict[str, str]:
    """Fork now, make the calls in the child, each in a loop of its own; return what they said."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps({name: _said(calls[name]) for name in calls}).encode())
        finally:
            # Nothing of the tests, nor of their event loop, may run a second time.
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        text = await asyncio.to_thread(answers.read)
    await asyncio.to_thread(os.waitpid, child, 0)
    said: dict[str, str] = json.loads(text)
    return said


def _said(call: Call) -> str:
    async def run() -> None:
        async with asyncio.timeout(30):
            await call()

    try:
        asyncio.run(run())
    except ClientClosedError as error:
        return str(error)
    except BaseException as error:  # whatever it is, the parent shall see it
        return repr(error)
    return "done"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_every_use_after_a_fork_is_refused_and_sends_nothing(
    client: Redisson, redis: Redis
) -> None:
    lock, fenced = client.get_lock("k"), client.get_fenced_lock("f")
    async with lock as lease:
        uses: dict[str, Call] = {
            "acquire": lock.acquire,
            "try_acquire": lock.try_acquire,
            "acquire another": fenced.acquire,
            "release": lock.release,
            "release the lease": lease.release,
            "extend": lambda: lease.extend(5),
            "locked": lock.locked,
            "inspect": lock.inspect,
            "force_release": lock.force_release,
            "ping": client.ping,
            "aclose": client.aclose,
        }
        await redis.ping()
        async with Counted(redis) as counted:
            said = await in_a_child(uses)
        assert list(said) == list(uses)
        assert {name: text for name, text in said.items() if "before a fork" not in text} == {}
        assert counted.calls == {}
        assert await lock.owned()
        assert not lease.lost
    assert client.statistics().connections == 1


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
            await use(own)

    # Written and not yet answered, or not yet even written, when the child comes to be.
    asking = [asyncio.create_task(lock.remaining()) for lock in locks]
    await asyncio.sleep(0)
    said = await in_a_child({"own": work, "parent's": client.ping})
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
