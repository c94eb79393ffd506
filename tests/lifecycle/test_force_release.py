"""`force_release()` by the holder's own client ends its block at once (issue 12, item 8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py import LeaseLostError
from tests.support.kinds import DISTINCT_LOCKS, Stage, in_a_task, reason_of
from tests.support.streams import answered
from tests.support.waiting import until, until_async

locks = pytest.mark.parametrize("stage", DISTINCT_LOCKS, indirect=True)
"""For those that have `force_release()`."""

#: Less than a third of the lease, so that no renewal reports the loss first.
SOON = 5


@locks
async def test_forced_by_the_holder_itself(stage: Stage) -> None:
    party = stage.party()
    with pytest.raises(LeaseLostError) as caught:
        async with party.thing as lease:
            try:
                assert await party.thing.force_release() is True
            finally:
                assert lease.lost
    await stage.assert_nothing_held(party)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert reason_of(caught.value) == "forced"


@pytest.mark.parametrize("stage", ["red_lock"], indirect=True)
async def test_forced_release_spares_what_is_granted_behind_it(stage: Stage) -> None:
    party = stage.party()
    for client in party.clients:
        await answered(client)
    await stage.servers[0].hset(stage.name, "somebody:1", 1)
    forcing = asyncio.create_task(party.clients[0].get_lock(stage.name).force_release())
    lease = await in_a_task(party.thing.acquire())
    assert await forcing is True
    await lease.release()
    await stage.assert_nothing_held(party)


@locks
async def test_forced_inside_two_blocks_ends_both(stage: Stage) -> None:
    party = stage.party()
    leases: list[Any] = []

    async def work() -> None:
        async with party.thing as outer:
            leases.append(outer)
            async with party.thing as inner:
                leases.append(inner)
                await asyncio.sleep(30)

    task = asyncio.create_task(work())
    await until(lambda: len(leases) == 2)
    assert await party.thing.force_release() is True
    assert [lease.lost for lease in leases] == [True, True]
    with pytest.raises(LeaseLostError) as caught:
        async with asyncio.timeout(SOON):
            await task
    await stage.assert_nothing_held(party)
    assert reason_of(caught.value) == "forced"


@pytest.mark.parametrize("stage", ["read_lock"], indirect=True)
async def test_forced_release_of_readers_ends_all_of_this_client(stage: Stage) -> None:
    party = stage.party()
    tasks = [asyncio.create_task(read(party.thing)) for _ in range(3)]

    async def all_in() -> bool:
        return await stage.out() == 3

    await until_async(all_in)
    assert await party.thing.force_release() is True
    async with asyncio.timeout(SOON):
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(outcome, LeaseLostError) for outcome in outcomes)
    await stage.assert_nothing_held(party)


async def read(lock: Any) -> None:
    async with lock:
        await asyncio.sleep(30)
