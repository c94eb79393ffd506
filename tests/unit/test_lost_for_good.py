"""What was seen as lost stays lost, whatever Redis answers before the timer of the end fires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from redisson_py._engine.hold import Hold, Lease, LeaseExtension
from redisson_py._engine.ownership import Ownership
from tests.unit.fakes import LEASE, FakeOwnership, make_lease
from tests.unit.watchdog_setup import Setup

SHORT = 5.37


class Answered(FakeOwnership):
    """A lock that changes leases when a test says so.

    Attributes:
        change: What Redis will answer to the change under way.
    """

    change: asyncio.Future[Any]

    def _begin(self, *_: object, **__: object) -> Any:
        self.change = asyncio.get_running_loop().create_future()
        return SimpleNamespace(future=self.change, uncertain=False)

    send_set_lease = _begin

    async def answer(self, reply: object) -> None:
        if isinstance(reply, Exception):
            self.change.set_exception(reply)
        else:
            self.change.set_result(reply)
        await asyncio.sleep(0)


@pytest.fixture
def lock(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> Answered:
    lock = Answered("k1", context=setup.context)
    server = SimpleNamespace(lower=lock._begin)
    monkeypatch.setattr(setup.context, "executor", server, raising=False)
    return lock


def pass_end(setup: Setup, lease: Lease) -> None:
    """Let its end pass, while the timer is late."""
    setup.clock.present = lease._ends_at
    assert lease.lost


async def test_a_renewal_answered_after_the_end_is_undone(setup: Setup) -> None:
    hold = setup.hold()
    lease = make_lease(hold)
    setup.clock.sleep(LEASE / 3)
    pass_end(setup, lease)
    await setup.last.answer(1)
    assert lease.lost
    assert (hold.state, lease._reason) == ("lost", "expired")
    assert cast("FakeOwnership", hold.ownership).undone == [hold]
    setup.watchdog.check()


def extended(lock: Answered, hold: Hold, lease: Lease) -> None:
    extension = LeaseExtension(cast("Any", lock), hold, lease, LEASE)
    extension.send()
    # Nobody waits for it here.
    extension.answer.add_done_callback(lambda done: done.exception())


def needed(lock: Answered, hold: Hold, _: Lease) -> None:
    Ownership.set_needed_lease(cast("Any", lock), hold)


def lowered(lock: Answered, hold: Hold, _: Lease) -> None:
    Ownership.lower(cast("Any", lock), hold)


@pytest.mark.parametrize("change", [extended, needed, lowered])
async def test_a_change_answered_after_the_end_does_not_move_it(
    setup: Setup, lock: Answered, change: Callable[[Answered, Hold, Lease], None]
) -> None:
    # As a read lease under a write hold that ends, which then asks for a lease of its own.
    hold = setup.hold(ownership=lock, lease_time=SHORT, renewed=False)
    lease = make_lease(hold, limit=setup.clock.present + LEASE)
    setup.clock.sleep(SHORT / 2)
    change(lock, hold, lease)
    pass_end(setup, lease)
    await lock.answer(1)
    assert lease.lost
    assert (hold.state, lock.ended) == ("lost", [hold])
    assert hold.is_changing is False
    hold.check()
    setup.watchdog.check()
