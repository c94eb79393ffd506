"""Holds that nothing can release any more: their task ended, their lease is garbage.

Issue 12, item 4. They are no longer renewed, with one warning. A permit whose `id` was read can
still be released by its id, so it is still renewed.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from tests.support.kinds import SEMAPHORES, Party, Stage, in_a_task
from tests.support.waiting import until_async

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


async def test_abandoned_by_a_task_that_ended(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    party, rival = stage.party(lease_time=1), stage.rival()
    await in_a_task(forget(party.thing))
    gc.collect()
    await until_back(stage, rival)
    count = len(warnings(caplog, stage.name))
    # A composite lock may say so for each of its members.
    assert 1 <= count <= 1 + (stage.kind.servers if stage.kind.servers > 1 else 0)
    await stage.assert_nothing_held(party)


@semaphores
async def test_several_are_abandoned(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    stage.permits = 3
    party, rival = stage.party(lease_time=1), stage.rival()
    for _ in range(3):
        await in_a_task(forget(party.thing))
    gc.collect()
    await until_back(stage, rival)
    assert 1 <= len(warnings(caplog, stage.name)) <= 3
    await stage.assert_nothing_held(party)


@semaphores
async def test_kept_while_its_permit_is(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    party = stage.party()
    permit: Any = await in_a_task(party.thing.acquire())
    gc.collect()
    await party.renewed_at_once(3)
    assert not permit.lost
    assert await stage.out() == 1
    await permit.release()
    assert warnings(caplog, stage.name) == []
    await stage.assert_nothing_held(party)


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


@pytest.mark.parametrize("stage", ["expirable_semaphore"], indirect=True)
@pytest.mark.more
async def test_of_several_permits_those_without_a_reader_are_given_up(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.permits = 3
    party, rival = stage.party(lease_time=3), stage.rival()

    async def take() -> tuple[Any, str]:
        kept, read, _ = await party.thing.acquire_many(3)
        return kept, str(read.id)

    kept, permit_id = await in_a_task(take())
    gc.collect()

    async def one_is_back() -> bool:
        return bool(await rival.thing.available() == 1)

    await until_async(one_is_back, 15)
    await party.renewed(1)
    assert await rival.thing.available() == 1
    assert not kept.lost
    assert len(warnings(caplog, stage.name)) == 1
    await kept.release()
    await party.thing.release(permit_id)
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
