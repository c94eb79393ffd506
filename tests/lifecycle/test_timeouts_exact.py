"""Timeouts of a busy lock on a live server: busy, and never "did not answer"."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from redisson_py import AcquireTimeoutError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support.last_look import TRIES, told_as_silent
from tests.support.streams import answered

ROUNDS, TASKS = 10, 20


def things_of(client: Redisson, number: int) -> list[Any]:
    """Return one of each kind."""
    return [
        client.get_lock(f"k{number}"),
        client.get_fair_lock(f"fair{number}"),
        client.get_read_write_lock(f"rw{number}").read_lock(),
        client.get_semaphore(f"semaphore{number}", 1),
        client.get_permit_expirable_semaphore(f"semaphore-ids{number}", 1),
    ]


def holding(client: Redisson, number: int) -> list[Any]:
    """Return what keeps each of these busy."""
    lock, fair, _, *semaphores = things_of(client, number)
    return [lock, fair, client.get_read_write_lock(f"rw{number}").write_lock(), *semaphores]


@pytest.mark.more
async def test_a_timeout_on_a_live_server_is_told_as_busy(clients: ClientFactory) -> None:
    """Also where the timer of the event loop is a little early, as uvloop's is."""
    holder, acquiring, trying = clients(), clients(), clients()
    for client in (acquiring, trying):
        await answered(client)
    leases = [await each.acquire() for n in range(TASKS) for each in holding(holder, n)]

    async def asked(number: int) -> list[Any]:
        seconds = 0.5 + 0.05 * number / ROUNDS
        wanted = [
            things_of(client, n)[(n + number) % 5]
            for client in (acquiring, trying)
            for n in range(TASKS)
        ]
        return await asyncio.gather(
            *[each.acquire(timeout=seconds) for each in wanted[:TASKS]],
            *[each.try_acquire(timeout=seconds) for each in wanted[TASKS:]],
            return_exceptions=True,
        )

    for number in range(ROUNDS):
        for _ in range(TRIES):
            outcomes = await asked(number)
            if not any(map(told_as_silent, outcomes)):
                break
        assert {type(outcome) for outcome in outcomes[:TASKS]} == {AcquireTimeoutError}
        assert outcomes[TASKS:] == [None] * TASKS
        assert not any(map(told_as_silent, outcomes)), outcomes
    for lease in leases:
        await lease.release()


async def test_the_timeouts_of_a_crowd_on_one_lock_are_told_as_busy(clients: ClientFactory) -> None:
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
            if not any(map(told_as_silent, outcomes)):
                break
    assert {type(outcome) for outcome in outcomes} == {AcquireTimeoutError}
    assert not any(map(told_as_silent, outcomes)), outcomes
