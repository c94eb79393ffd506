"""Holds that end by themselves, but whose end in Redis others may have brought nearer."""

from __future__ import annotations

import pytest
from redisson_py._lease.hold import Hold, lease_end
from redisson_py._lease.lease import Lease

from redisson_py.errors import ConnectionLostError
from tests.unit.fakes import FakeResource, make_lease
from tests.unit.kennel import LEASE, Kennel, new_kennel

LONG = 10 * LEASE


@pytest.fixture
def kennel(monkeypatch: pytest.MonkeyPatch) -> Kennel:
    return new_kennel(monkeypatch)


def shared(kennel: Kennel, number: int, seconds: float) -> tuple[Hold, Lease]:
    """Have the watchdog keep a hold with a lease of its own, which others can cut."""
    resource = FakeResource(f"k{number}")
    resource._cut_by_others = True
    hold = kennel.hold(number, resource=resource, watched=False)
    ends_at = lease_end(kennel.clock.present, seconds)
    kennel.dog.set_end(hold, ends_at)
    lease = make_lease(hold)
    kennel.dog.limit(lease, ends_at)
    return hold, lease


async def test_it_is_asked_after_as_often_as_others_are_renewed(kennel: Kennel) -> None:
    hold, lease = shared(kennel, 1, LONG)
    ends_at = hold.ends_at
    for _ in range(3):
        kennel.clock.sleep(LEASE / 3)
        assert (kennel.last.owners, kennel.last.values) == (["c:1"], {"lease_ms": 0})
        await kennel.last.answer(1)
    assert len(kennel.executor.renewals) == 3
    assert (hold.ends_at, lease._state) == (ends_at, "held")
    assert kennel.dog.renewals == 0


async def test_it_is_lost_when_redis_does_not_know_it_any_more(kennel: Kennel) -> None:
    _, lease = shared(kennel, 1, LONG)
    kennel.clock.sleep(LEASE / 3)
    await kennel.last.answer(0)
    assert lease._state == "lost"


async def test_it_ends_at_its_own_end_whatever_redis_says(kennel: Kennel) -> None:
    hold, lease = shared(kennel, 1, LEASE)
    for _ in range(2):
        kennel.clock.sleep(LEASE / 3)
        await kennel.last.answer(1)
    kennel.clock.sleep(hold.ends_at - kennel.clock.present - 0.01)
    assert not lease.lost
    kennel.clock.sleep(0.02)
    assert lease.lost
    assert kennel.dog.losses == 1
    asked = len(kennel.executor.renewals)
    kennel.clock.sleep(LONG)
    assert len(kennel.executor.renewals) == asked


async def test_it_is_asked_after_apart_from_those_that_are_renewed(kennel: Kennel) -> None:
    shared(kennel, 1, LONG)
    make_lease(kennel.hold(2))
    kennel.clock.sleep(LEASE / 3)
    asked = {renewal.owners[0]: renewal.values["lease_ms"] for renewal in kennel.executor.renewals}
    assert asked == {"c:1": 0, "c:2": 30_000}


async def test_an_answer_that_lengthened_nothing_moves_no_end(kennel: Kennel) -> None:
    hold, _ = shared(kennel, 1, LEASE)
    ends_at = hold.ends_at
    kennel.clock.sleep(LEASE / 3)
    kennel.dog.set_watched(hold, True)
    await kennel.last.answer(1)
    assert hold.ends_at == ends_at


async def test_no_answer_is_no_loss_and_it_is_asked_after_again(kennel: Kennel) -> None:
    _, lease = shared(kennel, 1, LONG)
    kennel.clock.sleep(LEASE / 3)
    await kennel.last.fail(ConnectionLostError("no answer", maybe_held=False))
    assert lease._state == "held"
    kennel.clock.sleep(LEASE / 30)
    assert len(kennel.executor.renewals) == 2


async def test_nobody_asks_after_what_was_released(kennel: Kennel) -> None:
    hold, _ = shared(kennel, 1, LONG)
    kennel.dog.remove(hold)
    kennel.clock.sleep(LEASE)
    assert kennel.executor.renewals == []
