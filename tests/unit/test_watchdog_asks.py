"""At a new connection or master all holds there are asked after at once; a moving slot splits."""

from __future__ import annotations

import pytest

from redisson_py._engine.hold import Hold
from redisson_py._engine.watchdog import _MOST_HOLDS_AT_ONCE as AT_ONCE
from redisson_py._engine.watchdog import _PAUSE_SECONDS as PAUSE
from redisson_py._engine.watchdog import BATCH_HOLDS
from redisson_py._redis.stream.call import ReplyError
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


async def test_only_those_concerned_are_asked_after(setup: Setup) -> None:
    held(setup, 3)
    setup.watchdog.ask_now(lambda key: key == b"k1")
    setup.clock.sleep(0)
    assert [each.keys for each in setup.executor.renewals] == [[b"k1"]]
    setup.watchdog.ask_now(lambda key: False)
    setup.clock.sleep(1.0)
    assert len(setup.executor.renewals) == 1


async def test_very_many_are_asked_after_in_rounds_with_a_breath_between(setup: Setup) -> None:
    holds = held(setup, 10_000)
    start = setup.clock.present
    setup.watchdog.ask_now(everything)
    rounds: list[int] = []
    while sum(rounds) < len(holds):
        (moment,) = setup.clock.pending
        before = len(setup.executor.renewals)
        setup.clock.sleep(moment - setup.clock.present)
        rounds.append(len(asked(setup.executor.renewals[before:])))
    assert rounds == [AT_ONCE] * 10
    assert len(setup.executor.renewals) == 100
    assert asked(setup.executor.renewals) == [hold.field for hold in holds]
    assert setup.clock.present - start == pytest.approx(9 * PAUSE)
    setup.watchdog.check()


async def test_a_round_is_of_few_calls_where_each_key_needs_its_own(setup: Setup) -> None:
    held(setup, 250)
    setup.executor.groups = {b"k%d" % number: number for number in range(250)}
    setup.watchdog.ask_now(everything)
    for expected in (BATCH_HOLDS, 2 * BATCH_HOLDS, 250):
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
