"""What callers are told: waits for oneself, releases elsewhere, timeouts, calls without asyncio."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
import trio

from redisson_py import AcquireTimeoutError, NotHeldError, QuorumError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.kinds import KINDS
from tests.support.last_look import TRIES, heard_silence
from tests.support.leases import renewed_at_once
from tests.support.streams import answered
from tests.support.waiting import until


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if "wait forever" in each.getMessage()]


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
@pytest.mark.more
async def test_task_that_waits_for_itself_is_reported_once(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    client = clients(lease_time=3)
    things: dict[str, Callable[[], Any]] = {
        "lock": lambda: client.get_lock("k"),
        "multi_lock": lambda: client.get_multi_lock(client.get_lock("k"), client.get_lock("l")),
    }
    thing = things[kind]()
    helper: asyncio.Task[None]

    async def help_out() -> None:
        async with thing:
            pass

    async def work() -> None:
        nonlocal helper
        async with thing:
            helper = asyncio.create_task(help_out(), name="the helper")
            await asyncio.gather(helper)

    working = asyncio.create_task(work(), name="the worker")
    await until(lambda: said(caplog))
    # Several renewals later it was still logged only once.
    await renewed_at_once(client, 3)
    (text,) = said(caplog)
    assert text.startswith("task 'the helper': waiting for ")
    assert "task 'the worker' of this client holds" in text
    assert "'k'" in text
    helper.cancel()
    await asyncio.gather(working, return_exceptions=True)


@pytest.mark.more
async def test_short_waits_and_those_with_a_timeout_are_not_reported(
    clients: ClientFactory, caplog: pytest.LogCaptureFixture
) -> None:
    client = clients(lease_time=3)
    lock = client.get_lock("k")
    lease = await lock.acquire()
    timed = asyncio.create_task(lock.acquire(timeout=60), name="the patient")
    clock, longest = asyncio.get_running_loop().time, math.inf
    # A stalled machine makes a short wait long: try again.
    while longest > 1.4:
        assert not any("the patient" in each for each in said(caplog))
        caplog.clear()
        longest = 0.0
        renewals = client.statistics().renewals
        while client.statistics().renewals < renewals + 2:
            # Gone again before the second look.
            begun, seen = clock(), client.statistics().renewals
            short = asyncio.create_task(lock.acquire())
            await until(lambda seen=seen: client.statistics().renewals > seen)  # type: ignore[misc]
            short.cancel()
            await asyncio.gather(short, return_exceptions=True)
            longest = max(longest, clock() - begun)
    assert said(caplog) == []
    await lease.release()
    await (await timed).release()


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
async def test_release_by_a_task_that_holds_nothing_names_the_holder(
    client: Redisson, kind: str
) -> None:
    lock: Any = client.get_lock("k")
    if kind == "multi_lock":
        lock = client.get_multi_lock(lock, client.get_lock("l"))
    with pytest.raises(NotHeldError, match=r"current task$"):
        await lock.release()

    async def keep(lease: asyncio.Future[Any], leave: asyncio.Event) -> None:
        lease.set_result(await lock.acquire())
        await leave.wait()

    got, leave = asyncio.get_running_loop().create_future(), asyncio.Event()
    holder = asyncio.create_task(keep(got, leave), name="the holder")
    lease = await got
    with pytest.raises(NotHeldError, match=r"task 'the holder'.*lease.release"):
        await lock.release()
    leave.set()
    await holder
    ended = r"has ended.*wait_for.*acquire\(timeout=\.\.\.\).*lease.release"
    with pytest.raises(NotHeldError, match=ended):
        await lock.release()
    del holder
    with pytest.raises(NotHeldError, match=ended):
        await lock.release()
    await lease.release()


# Without an event loop of asyncio.


USES: dict[str, Callable[[Redisson], Any]] = {
    "ping": lambda client: client.ping(),
    "lock": lambda client: client.get_lock("k").__aenter__(),
    "acquire": lambda client: client.get_lock("k").acquire(),
    "hold": lambda client: client.get_lock("k").hold().__aenter__(),
    "red lock": lambda client: client.get_red_lock(client.get_lock("k")).acquire(),
    "semaphore": lambda client: client.get_semaphore("s", 1).__aenter__(),
    "barrier": lambda client: client.get_barrier("b", 1).wait(),
    "inspect": lambda client: client.get_lock("k").inspect(),
}

every_use = pytest.mark.parametrize("use", USES.values(), ids=USES)


@every_use
def test_trio_is_named(use: Callable[[Redisson], Any]) -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="asyncio; trio is not supported"):
            await use(client)

    trio.run(main)
    assert client._life._root is None


#: What one task at a time can have: one kind for each way to wait.
WAITED_FOR = ["lock", "fair_lock", "read_lock", "semaphore", "expirable_semaphore"]


@pytest.mark.parametrize("kind", WAITED_FOR)
@pytest.mark.more
async def test_a_timeout_on_a_live_server_is_reported_as_busy(
    kind: str, clients: ClientFactory
) -> None:
    """Also where the timer of the event loop is a little early, as uvloop's is."""
    holder, client = clients(), clients()
    await answered(client)
    names = [f"{KINDS[kind].name}{number}" for number in range(20)]
    leases = [await KINDS[kind].rival_of(holder, name).acquire() for name in names]
    for number in range(10):
        seconds = 0.5 + 0.005 * number
        for _ in range(TRIES):
            things = [KINDS[kind].one(client, name) for name in names]
            outcomes = await asyncio.gather(
                *[thing.acquire(timeout=seconds) for thing in things[:10]],
                *[thing.try_acquire(timeout=seconds) for thing in things[10:]],
                return_exceptions=True,
            )
            if not any(map(heard_silence, outcomes)):
                break
        assert {type(outcome) for outcome in outcomes[:10]} == {AcquireTimeoutError}
        assert outcomes[10:] == [None] * 10
        assert not any(map(heard_silence, outcomes)), outcomes
    for lease in leases:
        await lease.release()


async def test_the_timeouts_of_a_crowd_on_one_lock_are_reported_as_busy(
    clients: ClientFactory,
) -> None:
    """One waiter asks for all; the others get no answer of their own."""
    holder, client = clients(), clients()
    # Connected first, so that only the wait can time out.
    await answered(client)
    async with holder.get_lock("k"):
        for _ in range(TRIES):
            asked = [
                client.get_lock("k").acquire(timeout=0.5 + 0.1 * number / 200)
                for number in range(200)
            ]
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            if not any(map(heard_silence, outcomes)):
                break
    assert {type(outcome) for outcome in outcomes} == {AcquireTimeoutError}
    assert not any(map(heard_silence, outcomes)), outcomes


async def test_the_error_of_a_call_that_did_not_wait_says_what_is_so(
    clients: ClientFactory,
) -> None:
    client, other = clients(), clients()
    async with other.get_lock("k"), other.get_semaphore("semaphore", 1):
        cases: list[tuple[Any, str]] = [
            (client.get_lock("k"), "lock 'k' is busy"),
            (client.get_multi_lock(client.get_lock("k")), "multi lock 'k' is busy"),
            (client.get_semaphore("semaphore"), "semaphore 'semaphore' is busy: no permit was"),
        ]
        for made, text in cases:
            with pytest.raises(AcquireTimeoutError) as busy:
                await made.acquire(timeout=0)
            assert str(busy.value).startswith(text)
            assert " 0 s" not in str(busy.value)
        with pytest.raises(QuorumError) as quorum:
            await client.get_red_lock(client.get_lock("k")).acquire(timeout=0)
        assert " 0 s" not in str(quorum.value)
    for waited, text in (
        (client.get_latch("l", 1).wait, "latch 'l' was not open"),
        (client.get_barrier("b", 2).wait, "barrier 'b': not all 2 parties arrived"),
    ):
        with pytest.raises(AcquireTimeoutError) as late:
            await waited(timeout=0)
        assert str(late.value).endswith(text)
    await client.get_latch("l").delete()
