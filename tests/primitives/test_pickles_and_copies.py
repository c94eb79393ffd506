"""What belongs to a process refuses pickles and copies; what is a value has both."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from redisson_py import (
    AcquiredEvent,
    AcquireTimeoutError,
    Admission,
    RateLimit,
    Redisson,
    ReleasedEvent,
    WaitEndedEvent,
)
from tests.fixtures.client import ClientFactory
from tests.support.recorder import Recorder

WAYS: list[Callable[[Any], object]] = [pickle.dumps, copy.copy, copy.deepcopy]


def assert_refused(each: object) -> None:
    for way in WAYS:
        with pytest.raises(TypeError) as refused:
            way(each)
        assert str(refused.value) == (
            f"{type(each).__name__} cannot be pickled or copied: share the object itself within a"
            " process, and create a client in each process"
        )


def assert_value(each: object) -> None:
    assert pickle.loads(pickle.dumps(each)) == copy.copy(each) == copy.deepcopy(each) == each


async def test_clients_and_what_they_make_are_not_copied(client: Redisson) -> None:
    lock, semaphore = client.get_lock("k"), client.get_semaphore("semaphore", 2)
    both = client.get_read_write_lock("rw")
    permits = client.get_permit_expirable_semaphore("p", 2)
    for made in (
        client,
        lock,
        client.get_lock("n", reentrant=False),
        client.get_fair_lock("f"),
        client.get_fenced_lock("g"),
        both,
        both.read_lock(),
        both.write_lock(),
        client.get_multi_lock(lock, both.write_lock()),
        client.get_red_lock(lock),
        semaphore,
        permits,
        client.get_latch("l", 1),
        client.get_barrier("b", 2),
        client.get_rate_limiter("r", 2),
        lock.hold(),
        semaphore.hold(n=1),
        permits.hold(lease_time=3),
    ):
        assert_refused(made)
    assert not await lock.locked()


async def test_leases_are_not_copied(client: Redisson) -> None:
    async with client.get_lock("k") as lease, client.get_fenced_lock("g") as fenced:
        async with client.get_multi_lock(client.get_lock("k"), client.get_lock("m")) as joint:
            async with client.get_semaphore("semaphore", 1) as permit:
                for each in (lease, fenced, joint, permit):
                    assert_refused(each)
                # Nor inside of what is copied.
                with pytest.raises(TypeError, match="Lease cannot be pickled or copied"):
                    copy.deepcopy({"job": [lease]})
                assert await client.get_lock("k").hold_count() == 2


async def test_snapshots_statistics_and_events_are_values(clients: ClientFactory) -> None:
    recorder = Recorder()
    client, other = clients(listener=recorder), clients()
    lock = client.get_lock("k")
    async with lock, client.get_semaphore("semaphore", 2):
        values = [
            await lock.inspect(),
            await client.get_read_write_lock("rw").inspect(),
            await client.get_multi_lock(lock).inspect(),
            await client.get_semaphore("semaphore").inspect(),
            await client.get_latch("l", 1).inspect(),
            await client.get_barrier("b", 2).inspect(),
            await client.get_rate_limiter("r").inspect(),
            Admission(allowed=False, retry_after=0.5, available=1),
            RateLimit(5, 1.0, per_client=False),
            client.statistics(),
            lock.statistics(),
        ]
    async with other.get_lock("k"):
        with pytest.raises(AcquireTimeoutError) as busy:
            await lock.acquire(timeout=0.5)
    assert {type(each) for each in recorder.events} > {AcquiredEvent, ReleasedEvent, WaitEndedEvent}
    for value in (*values, *recorder.events):
        assert_value(value)
    assert str(pickle.loads(pickle.dumps(busy.value))) == str(busy.value)


def test_statistics_can_be_written_as_json() -> None:
    counts = Redisson.from_url("redis://127.0.0.1:1").statistics()
    written = json.loads(json.dumps(dataclasses.asdict(counts)))
    assert written["losses_by_reason"]["expired"] == written["losses"] == 0
    losses: Any = counts.losses_by_reason
    with pytest.raises(TypeError):
        losses["expired"] = 1
