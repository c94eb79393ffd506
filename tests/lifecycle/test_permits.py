"""Permits: what a release gives back, what nobody does, and that no number changes by itself."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import LeaseLostError, NotHeldError, Redisson
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import ProxyFactory
from tests.support.kinds import SEMAPHORES, Party, Stage, in_a_task
from tests.support.streams import answered
from tests.support.waiting import until, until_async


async def test_a_release_does_not_give_back_what_another_client_took(
    client: Redisson, clients: ClientFactory
) -> None:
    other = clients().get_semaphore("semaphore", 2)
    permit = await other.acquire()
    with pytest.raises(NotHeldError):
        await client.get_semaphore("semaphore").release()
    assert await other.available() == 1
    await permit.release()
    assert await other.available() == 2


async def test_a_release_after_a_loss_is_reported_and_mints_nothing(
    clients: ClientFactory, proxy: ProxyFactory
) -> None:
    """Five of two were out: the permit was given back at its loss, and by the release again."""
    link = await proxy()
    far, near = clients(link.url, lease_time=1), clients()
    semaphore = far.get_semaphore("semaphore", 2)
    others = near.get_semaphore("semaphore")
    permits = [await semaphore.acquire(), await semaphore.acquire()]
    link.black_hole()
    await until(lambda: all(permit.lost for permit in permits))
    link.pass_through()
    link.cut()
    await until_async(lambda: is_available(others, 2))
    for _ in permits:
        with pytest.raises(LeaseLostError):
            await semaphore.release()
    with pytest.raises(NotHeldError):
        await semaphore.release()
    assert await others.available() == 2


async def test_a_release_leaves_the_blocks_of_other_tasks_alone(client: Redisson) -> None:
    semaphore = client.get_semaphore("semaphore", 3)
    inside, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with semaphore as permit:
            inside.set()
            await leave.wait()
            permit.check()
            assert permit.units == 1

    holder = asyncio.create_task(hold())
    await inside.wait()
    with pytest.raises(NotHeldError):
        await semaphore.release()
    assert await semaphore.available() == 2
    mine = await semaphore.acquire()
    await semaphore.release()
    assert mine.units == 0
    leave.set()
    await holder
    assert await semaphore.available() == 3


async def test_a_release_returns_the_permit_of_its_own_task_first(
    client: Redisson,
) -> None:
    semaphore = client.get_semaphore("semaphore", 3)
    mine = [await semaphore.acquire(), await semaphore.acquire()]
    others = await asyncio.create_task(semaphore.acquire())
    await semaphore.release()
    assert [mine[0].units, mine[1].units, others.units] == [1, 0, 1]
    await semaphore.release()
    assert [mine[0].units, others.units] == [0, 1]
    await semaphore.release()  # of its client, outside any block
    assert others.units == 0
    assert await semaphore.available() == 3
    with pytest.raises(NotHeldError):
        await semaphore.release()


async def test_a_permit_of_another_semaphore_is_refused(client: Redisson) -> None:
    a = client.get_permit_expirable_semaphore("semaphore-a", 1)
    b = client.get_permit_expirable_semaphore("semaphore-b", 1)
    permit = await a.acquire()
    with pytest.raises((NotHeldError, ValueError)):
        await b.release(permit)
    with pytest.raises((NotHeldError, ValueError)):
        await b.release_many([permit])
    assert (await a.available(), await b.available()) == (0, 1)
    permit.check()
    assert client.statistics().held_leases == 1
    await a.release(permit)
    assert (await a.available(), await b.available()) == (1, 1)


@pytest.mark.parametrize("kind", ["semaphore", "expirable"])
async def test_a_snapshot_says_how_many_holders_it_does_not_show(
    kind: str, client: Redisson
) -> None:
    """`more` of the snapshot: how many holders there are beside those it lists."""
    semaphore: Any = (
        client.get_semaphore("semaphore", 250)
        if kind == "semaphore"
        else client.get_permit_expirable_semaphore("semaphore", 250)
    )
    permits = [await semaphore.acquire() for _ in range(3)]
    snapshot = await semaphore.inspect()
    assert (len(snapshot.holders), snapshot.more) == (3, 0)
    permits += await asyncio.gather(*[semaphore.acquire() for _ in range(240)])
    snapshot = await semaphore.inspect()
    assert snapshot.more > 0
    assert len(snapshot.holders) + snapshot.more == 243
    assert snapshot.available == 7
    await asyncio.gather(*[permit.release() for permit in permits])
    assert await semaphore.available() == 250


async def is_available(semaphore: Any, count: int) -> bool:
    """Whether this many permits are free."""
    return bool(await semaphore.available() == count)


@pytest.mark.parametrize("call", ["add_permits", "drain"])
@pytest.mark.more
async def test_permits_outlive_an_expiry_that_redisson_drops(
    call: str, clients: ClientFactory, redis: Redis
) -> None:
    """Its scripts write the counter without the expiry; the records must not expire with it."""
    client = clients(lease_time=30)
    semaphore = client.get_semaphore("semaphore")
    assert await semaphore.try_set_permits(3, lifetime=2.5)
    permits = [await semaphore.acquire(), await semaphore.acquire()]
    await redis.set("semaphore", 1 + 4 if call == "add_permits" else 0)
    assert await redis.ttl("semaphore") == -1
    await asyncio.sleep(3)  # longer than the semaphore was to live
    assert len((await semaphore.inspect()).holders) == 2
    for permit in permits:
        await permit.release()
    assert await semaphore.available() == (7 if call == "add_permits" else 2)


Use = Callable[[Any], Coroutine[Any, Any, object]]

#: The calls that change the count, and the result with 5 permits.
CHANGES: dict[str, tuple[bool, Use, int]] = {
    "add_permits": (False, lambda semaphore: semaphore.add_permits(3), 8),
    "drain": (False, lambda semaphore: semaphore.drain(), 0),
    "set_permits": (False, lambda semaphore: semaphore.set_permits(9), 9),
    "expirable add_permits": (True, lambda semaphore: semaphore.add_permits(3), 8),
    "expirable set_permits": (True, lambda semaphore: semaphore.set_permits(9), 9),
}


@pytest.mark.parametrize("commands", [0, 1])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_cancelled_change_that_makes_the_semaphore_first_is_carried_out(
    change: str,
    commands: int,
    clients: ClientFactory,
    proxy: ProxyFactory,
    client: Redisson,
    redis: Redis,
) -> None:
    """Cancelled after its first command left, or after that one was answered."""
    expirable, use, expected = CHANGES[change]
    link = await proxy()
    far = clients(link.url)

    def get(of: Redisson, permits: int | None = None) -> Any:
        make = of.get_permit_expirable_semaphore if expirable else of.get_semaphore
        return make("semaphore", permits)

    await use(get(far, 5))  # loads the scripts
    await redis.flushdb()
    semaphore = get(far, 5)
    link.delay(0.2, direction="down")
    frames = link.up.frames
    changing = asyncio.create_task(use(semaphore))
    await until(lambda: link.up.frames > frames + commands or changing.done())
    changing.cancel()  # too late where one command did both
    await asyncio.wait([changing])
    link.delay(0)
    await until_async(lambda: is_available(get(client), expected))
    await answered(far)
    assert await is_available(get(client), expected)


semaphores = pytest.mark.parametrize("stage", SEMAPHORES, indirect=True)


async def forget(thing: Any) -> None:
    """Acquire, and keep nothing of it."""
    await thing.acquire()


def warnings(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    """Return the warnings that name a resource."""
    messages = [
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    ]
    return [message for message in messages if repr(name) in message]


async def until_back(stage: Stage, rival: Party) -> None:
    """Return when it is free on the server; a semaphore frees it only when it is asked."""

    async def back() -> bool:
        if stage.kind.semaphore:
            return bool(await rival.thing.available() == stage.permits)
        return await stage.free()

    # Two leases, and time for a busy machine.
    await until_async(back, 15)


@semaphores
@pytest.mark.more
async def test_kept_while_its_task_runs(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    party = stage.party(lease_time=6)
    may_end = asyncio.Event()

    async def work() -> None:
        await forget(party.thing)
        gc.collect()
        await may_end.wait()

    task = asyncio.create_task(work())
    await party.renewed_at_once(2)
    assert await stage.out() == 1
    assert warnings(caplog, stage.name) == []
    may_end.set()
    await task
    gc.collect()
    await until_back(stage, stage.rival())
    await stage.assert_nothing_held(party)


@pytest.mark.parametrize("stage", ["expirable_semaphore"], indirect=True)
@pytest.mark.parametrize("by", ["its client", "another client"])
async def test_permit_whose_id_was_read_lives_on(
    stage: Stage, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    party, rival = stage.party(), stage.rival()

    async def take() -> str:
        permit = await party.thing.acquire()
        return str(permit.id)

    permit_id = await in_a_task(take())
    gc.collect()
    await party.renewed_at_once(3)
    assert await rival.thing.available() == 0
    assert warnings(caplog, stage.name) == []
    await (party if by == "its client" else rival).thing.release(permit_id)
    assert await rival.thing.available() == 1
    # Released by others, its own client learns of it by the next renewal.
    party.renew_now()
    await stage.assert_nothing_held(party)


@pytest.mark.parametrize("stage", ["semaphore"], indirect=True)
async def test_abandoned_permits_of_several_units_are_all_back(stage: Stage) -> None:
    stage.permits = 5
    party, rival = stage.party(lease_time=1), stage.rival()

    async def take() -> None:
        await party.thing.acquire(4)

    await in_a_task(take())
    gc.collect()
    await until_back(stage, rival)
    await stage.assert_nothing_held(party)
