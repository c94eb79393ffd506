"""At a new connection or master all holds there are asked after at once; a moving slot splits."""

from __future__ import annotations

import pytest

from redisson_py._engine.hold import Hold
from redisson_py._engine.watchdog import _AT_ONCE as AT_ONCE
from redisson_py._engine.watchdog import _PAUSE as PAUSE
from redisson_py._engine.watchdog import BATCH
from redisson_py._stream.call import ReplyError
from tests.unit.fakes import LEASE, make_lease
from tests.unit.watchdog_setup import Renewal, Setup


def everything(key: bytes) -> bool:
    return True


def held(setup: Setup, count: int, **options: object) -> list[Hold]:
    holds = [setup.hold(number, **options) for number in range(count)]
    for hold in holds:
        make_lease(hold)
    return holds


def asked(renewals: list[Renewal]) -> list[bytes]:
    return [owner for renewal in renewals for owner in renewal.owners]


async def test_all_are_asked_after_in_batches_and_then_one_period_later(setup: Setup) -> None:
    holds = held(setup, 250)
    setup.clock.sleep(1.0)
    setup.watchdog.ask_now(everything)
    setup.clock.sleep(0)
    assert [len(each.owners) for each in setup.executor.renewals] == [BATCH, BATCH, 50]
    assert asked(setup.executor.renewals) == [hold.field for hold in holds]
    assert setup.last.values == {"lease_ms": LEASE * 1000}
    setup.watchdog.check()
    await setup.executor.answer_all()
    # Not when they would have been due before.
    setup.clock.sleep(LEASE / 3 - LEASE / 48 - 0.01)
    assert len(setup.executor.renewals) == 3
    setup.clock.sleep(LEASE / 3)
    assert len(setup.executor.renewals) == 6


async def test_only_those_concerned_are_asked_after(setup: Setup) -> None:
    held(setup, 3)
    setup.watchdog.ask_now(lambda key: key == b"k1")
    setup.clock.sleep(0)
    assert [each.keys for each in setup.executor.renewals] == [[b"k1"]]
    setup.watchdog.ask_now(lambda key: False)
    setup.clock.sleep(1.0)
    assert len(setup.executor.renewals) == 1


async def test_a_loss_is_told_then(setup: Setup) -> None:
    gone, kept = (make_lease(hold) for hold in (setup.hold(1), setup.hold(2)))
    setup.watchdog.ask_now(everything)
    setup.clock.sleep(0)
    await setup.last.answer(0, 1)
    assert (gone.lost, kept.lost) == (True, False)
    assert gone._reason == "taken"


async def test_what_is_under_way_is_not_asked_twice(setup: Setup) -> None:
    first = setup.hold(1)
    make_lease(first)
    setup.clock.sleep(LEASE / 3)
    make_lease(setup.hold(2))
    assert asked(setup.executor.renewals) == [b"c:1"]
    for _ in range(3):
        setup.watchdog.ask_now(everything)
        setup.clock.sleep(0)
    assert asked(setup.executor.renewals) == [b"c:1", b"c:2"]
    await setup.executor.answer_all()
    setup.watchdog.ask_now(everything)
    setup.clock.sleep(0)
    assert asked(setup.executor.renewals) == [b"c:1", b"c:2", b"c:1", b"c:2"]


async def test_two_reasons_to_ask_are_one_question(setup: Setup) -> None:
    held(setup, 2)
    setup.watchdog.ask_now(everything)
    setup.watchdog.ask_now(lambda key: key == b"k1")
    setup.clock.sleep(0)
    assert asked(setup.executor.renewals) == [b"c:0", b"c:1"]


async def test_a_lease_of_its_own_is_asked_after_and_not_lengthened(setup: Setup) -> None:
    long, short = (
        setup.hold(1, lease_time=60.0, renewed=False),
        setup.hold(2, lease_time=8.0, renewed=False),
    )
    limits = [make_lease(hold, limit=hold.ends_at) for hold in (long, short)]
    ends = [(hold.ends_at, hold.lease_until) for hold in (long, short)]
    setup.clock.sleep(1.0)
    setup.watchdog.ask_now(everything)
    setup.clock.sleep(0)
    assert setup.last.values == {"lease_ms": 1}, "none of them has less left"
    setup.watchdog.check()
    await setup.last.answer(0, 1)
    assert [lease.lost for lease in limits] == [True, False]
    assert ends[1] == (short.ends_at, short.lease_until)
    setup.clock.sleep(3.0)
    assert len(setup.executor.renewals) == 1, "never again by the clock"
    assert setup.watchdog.renewals == 0


async def test_a_shared_lease_is_asked_after_with_a_lease_of_nothing(setup: Setup) -> None:
    make_lease(setup.shared(1, 60.0), limit=setup.clock.present + 60.0)
    setup.watchdog.ask_now(everything)
    setup.clock.sleep(0)
    assert setup.last.values == {"lease_ms": 0}


async def test_what_was_released_before_its_turn_is_not_asked_after(setup: Setup) -> None:
    gone, suspended, kept = held(setup, 3)
    setup.watchdog.ask_now(everything)
    gone.end("released")
    suspended.suspend()
    setup.clock.sleep(0)
    assert asked(setup.executor.renewals) == [kept.field]
    suspended.resume()
    setup.watchdog.check()


async def test_a_closed_client_asks_nothing_any_more(setup: Setup) -> None:
    held(setup, 1)
    setup.watchdog.close()
    setup.watchdog.ask_now(everything)
    assert setup.clock.pending == []


async def test_very_many_are_asked_after_in_turns_with_a_breath_between(setup: Setup) -> None:
    holds = held(setup, 10_000)
    start = setup.clock.present
    setup.watchdog.ask_now(everything)
    turns: list[int] = []
    while sum(turns) < len(holds):
        (moment,) = setup.clock.pending
        before = len(setup.executor.renewals)
        setup.clock.sleep(moment - setup.clock.present)
        turns.append(len(asked(setup.executor.renewals[before:])))
    assert turns == [AT_ONCE] * 10
    assert len(setup.executor.renewals) == 100
    assert asked(setup.executor.renewals) == [hold.field for hold in holds]
    assert setup.clock.present - start == pytest.approx(9 * PAUSE)
    setup.watchdog.check()


async def test_a_turn_is_of_few_calls_where_each_key_needs_its_own(setup: Setup) -> None:
    held(setup, 250)
    setup.executor.groups = {b"k%d" % number: number for number in range(250)}
    setup.watchdog.ask_now(everything)
    for expected in (BATCH, 2 * BATCH, 250):
        setup.clock.sleep(setup.clock.pending[0] - setup.clock.present)
        assert len(setup.executor.renewals) == expected
    assert len(set(asked(setup.executor.renewals))) == 250


@pytest.mark.parametrize(
    "text",
    [
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "ASK 7 127.0.0.1:7001",
        "ERR Script attempted to access a non local key in a cluster node script: 12",
    ],
)
async def test_a_batch_whose_slot_moves_goes_again_key_by_key(setup: Setup, text: str) -> None:
    holds = [setup.hold(1), setup.hold(2)]
    permits = setup.ownership("k3")
    holds += [setup.hold(number, ownership=permits) for number in (3, 4)]
    for hold in holds:
        make_lease(hold)
    setup.clock.sleep(LEASE / 3)
    assert setup.last.splits
    await setup.last.fail(ReplyError(text))
    again = setup.executor.renewals[1:]
    assert [each.keys for each in again] == [[b"k1"], [b"k2"], [b"k3", b"k3"]]
    assert not any(each.splits for each in again), "they wait, or follow ASK"
    for each in again:
        await each.answer(*[1] * len(each.owners))
    assert all(hold.ends_at > setup.clock.present + LEASE * 0.9 for hold in holds)
    assert len(setup.executor.renewals) == 4


async def test_a_single_hold_never_splits(setup: Setup) -> None:
    make_lease(setup.hold(1))
    setup.clock.sleep(LEASE / 3)
    assert not setup.last.splits
