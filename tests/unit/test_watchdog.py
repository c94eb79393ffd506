"""The watchdog renews in time, says lost only when it knows, and never touches what left it."""

from __future__ import annotations

import gc
import logging
import math

import pytest

from redisson_py._engine.hold import lease_end
from redisson_py._engine.watchdog import _SPREAD as SPREAD
from redisson_py._engine.watchdog import BATCH
from redisson_py._scripts.source import parse
from redisson_py._stream.call import ReplyError
from redisson_py.errors import BackendError, ConnectionLostError
from tests.unit.fakes import LEASE, RENEW, FakeContext, make_lease
from tests.unit.watchdog_setup import Setup

#: Another script that renews.
DOOR = """\
--! script   door.keep
--! version  1
--! keys     doors...:hash
--! args     lease_ms:int owners...:str
--! returns  array
--! retry    safe: a door that is kept stays so
"""

NO_ANSWER = ConnectionLostError("no answer", maybe_held=True)


async def test_a_hold_is_renewed_after_a_third_of_its_lease(setup: Setup) -> None:
    make_lease(setup.hold())
    # Early by a bucket of the schedule at most.
    setup.clock.sleep(LEASE / 3 - LEASE / 48 - 0.01)
    assert setup.executor.renewals == []
    setup.clock.sleep(LEASE / 48 + 0.02)
    assert setup.last.script is RENEW
    assert (setup.last.keys, setup.last.owners) == ([b"k1"], [b"c:1"])
    assert setup.last.values == {"lease_ms": 30_000}


async def test_an_answer_moves_the_end_from_when_it_was_asked_for(setup: Setup) -> None:
    hold = setup.hold()
    make_lease(hold)
    while not setup.executor.renewals:
        setup.clock.sleep(0.5)
    asked_at = setup.clock.present
    ends_at = hold.ends_at
    setup.clock.sleep(3.0)
    await setup.last.answer(1)
    assert ends_at < lease_end(asked_at - 0.5, LEASE) <= hold.ends_at <= lease_end(asked_at, LEASE)
    assert hold.lease_until == pytest.approx((hold.ends_at + 0.002) / 0.99, rel=0.01)
    assert setup.watchdog.renewals == 1


async def test_a_store_may_keep_a_hold_for_less_than_its_lease(setup: Setup) -> None:
    hold = setup.hold()
    make_lease(hold)
    while not setup.executor.renewals:
        setup.clock.sleep(0.5)
    ends_at, counts_from = hold.ends_at, setup.clock.present - 4
    setup.last.counts_from = counts_from
    await setup.last.answer(1)
    assert ends_at < hold.ends_at == lease_end(counts_from, LEASE)


async def test_a_late_grant_is_renewed_a_third_of_its_lease_after_the_request(
    setup: Setup,
) -> None:
    """The lease runs from the request, so a slow answer leaves less of it."""
    hold = setup.hold(sent_at=setup.clock.present - LEASE * 0.7)
    make_lease(hold)
    setup.clock.sleep(0.01)
    await setup.last.answer(1)
    setup.clock.sleep(LEASE * 0.4)
    assert hold.valid


@pytest.mark.parametrize(
    ("lease_time", "number", "turns"),
    [
        (LEASE, 1900, [BATCH] * 19),
        # More a second: batches together rather than turns that follow without a pause,
        (1.0, 1900, [2 * BATCH] * 9 + [BATCH]),
        # up to so many that the event loop has nothing else to do meanwhile.
        (0.5, 10_500, [10 * BATCH] * 10 + [5 * BATCH]),
    ],
)
async def test_a_crowd_is_renewed_in_turns_over_a_part_of_the_period(
    setup: Setup, lease_time: float, number: int, turns: list[int]
) -> None:
    setup.context.watchdog = setup.new_watchdog(lease_time)
    start = setup.clock.present
    holds = [setup.hold(each, lease_time=lease_time) for each in range(number)]
    for hold in holds:
        make_lease(hold)
    asked: list[int] = []
    moments: list[float] = []
    while sum(asked) < number:
        (moment,) = setup.clock.pending
        before = len(setup.executor.renewals)
        setup.clock.sleep(moment - setup.clock.present)
        if renewals := setup.executor.renewals[before:]:
            asked.append(sum(len(each.owners) for each in renewals))
            moments.append(setup.clock.present)
    assert asked == turns
    period = lease_time / 3
    assert SPREAD * period * 0.8 < moments[-1] - moments[0] <= SPREAD * period
    assert moments[0] <= start + period, "the first of them in time"
    owners = [owner for renewal in setup.executor.renewals for owner in renewal.owners]
    assert owners == [hold.field for hold in holds]
    setup.watchdog.check()


async def test_a_batch_holds_only_what_one_script_may_touch(setup: Setup) -> None:
    other = setup.ownership("k9")
    other.commands.renew_script = parse(DOOR)
    setup.executor.groups = {b"k2": 7}
    for hold in (setup.hold(1), setup.hold(2), setup.hold(3), setup.hold(9, ownership=other)):
        make_lease(hold)
    setup.clock.sleep(LEASE / 3)
    batches = {(each.script.name, *each.keys) for each in setup.executor.renewals}
    assert batches == {("lock.renew", b"k1", b"k3"), ("lock.renew", b"k2"), ("door.keep", b"k9")}


async def test_a_batch_that_is_refused_is_split_down_to_the_refused_key(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    holds = [setup.hold(number) for number in range(BATCH)]
    leases = [make_lease(hold) for hold in holds]
    setup.executor.refused = {b"k37"}
    setup.clock.sleep(LEASE / 3)
    await setup.executor.answer_all()
    renewed = [hold for hold in holds if hold.ends_at > setup.clock.present + LEASE * 0.9]
    assert renewed == holds[:37] + holds[38:]
    # One call refused and one not, at each halving.
    assert len(setup.executor.renewals) <= 2 * math.ceil(math.log2(BATCH)) + 1
    setup.clock.sleep(1)
    assert "refused to renew 1 leases, among them lock 'k37'; trying again: NOPERM" in caplog.text
    while setup.clock.present < 1000 + LEASE:
        setup.clock.sleep(0.5)
        await setup.executor.answer_all()
    assert [lease.lost for lease in leases] == [number == 37 for number in range(BATCH)]
    assert leases[37]._reason == "expired"


async def test_a_batch_of_keys_that_are_all_refused_is_split_and_not_for_ever(
    setup: Setup,
) -> None:
    for number in range(8):
        make_lease(setup.hold(number))
    setup.executor.refused = {b"k%d" % number for number in range(8)}
    setup.clock.sleep(LEASE / 3)
    await setup.executor.answer_all()
    assert len(setup.executor.renewals) == 8 + 4 + 2 + 1
    # Next time they are asked for one by one: only they are refused.
    setup.clock.sleep(LEASE / 30 + 0.1)
    assert [len(renewal.owners) for renewal in setup.executor.renewals[15:]] == [1] * 8


async def test_an_answer_that_does_not_come_splits_nothing(setup: Setup) -> None:
    for number in range(8):
        make_lease(setup.hold(number))
    setup.clock.sleep(LEASE / 3)
    await setup.last.fail(NO_ANSWER)
    assert len(setup.executor.renewals) == 1
    setup.clock.sleep(LEASE / 30 + 0.01)
    assert [len(renewal.owners) for renewal in setup.executor.renewals] == [8, 8]


async def test_not_the_owner_is_lost_at_once_and_only_that_hold(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    lost, kept = setup.hold(1), setup.hold(2)
    leases = [make_lease(lost), make_lease(kept)]
    setup.clock.sleep(LEASE / 3)
    await setup.last.answer(0, 1)
    assert [lease.lost for lease in leases] == [True, False]
    assert leases[0]._reason == "taken"
    assert (lost.state, kept.state) == ("lost", "held")
    assert [*setup.watchdog.holds] == [kept]
    assert setup.context.losses == 1
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "lost lock 'k1': taken: on the server another owner holds it, or nobody does"
        " (owner c:1, held for 10.000 s)"
    )
    for hold in (lost, kept):
        hold.check()


async def test_a_loss_is_told_once_to_its_ownership(setup: Setup) -> None:
    ownership = setup.ownership()
    hold = setup.hold(ownership=ownership)
    make_lease(hold)
    setup.clock.sleep(LEASE / 3)
    await setup.last.answer(0)
    assert ownership.ended == [hold]
    setup.clock.sleep(10 * LEASE)
    assert ownership.ended == [hold]
    assert len(setup.executor.renewals) == 1


@pytest.mark.parametrize("lease_time", [LEASE, 3.0])
async def test_a_failed_renewal_is_unknown_and_asked_again_sooner(
    setup: Setup, lease_time: float
) -> None:
    setup.context = FakeContext(setup.new_watchdog(lease_time))
    hold = setup.hold(lease_time=lease_time)
    lease = make_lease(hold)
    setup.clock.sleep(lease_time / 3)
    await setup.last.fail(NO_ANSWER)
    assert not lease.lost
    setup.clock.sleep(lease_time / 30 + 0.001)
    assert len(setup.executor.renewals) == 2
    await setup.last.answer(1)
    assert hold.ends_at > setup.clock.present + lease_time * 0.95


@pytest.mark.parametrize(
    "error",
    [ConnectionLostError("no answer", maybe_held=False), BackendError("NOPERM"), ReplyError("OOM")],
)
async def test_no_error_makes_a_lease_lost_before_its_end(
    setup: Setup, error: BackendError
) -> None:
    hold = setup.hold()
    lease = make_lease(hold)
    ends_at = hold.ends_at
    while setup.clock.present < ends_at - 0.5:
        setup.clock.sleep(0.25)
        for renewal in setup.executor.unanswered:
            await renewal.fail(error)
        assert not lease.lost
    assert len(setup.executor.renewals) > 5
    setup.clock.sleep(ends_at - setup.clock.present - 0.001)
    assert lease._state == "held"
    setup.clock.sleep(0.002)
    assert (lease._state, lease._reason) == ("lost", "expired")


async def test_a_renewal_is_given_up_in_time_to_ask_again(setup: Setup) -> None:
    make_lease(hold := setup.hold())
    setup.clock.sleep(LEASE / 3)
    assert setup.clock.present + setup.last.seconds + LEASE / 30 < hold.ends_at


async def test_a_hold_without_answers_is_lost_by_the_local_clock(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    hold = setup.hold()
    lease = make_lease(hold)
    left = hold.ends_at - setup.clock.present
    setup.clock.sleep(left - 0.001)
    assert setup.context.losses == 0
    setup.clock.sleep(0.002)
    assert (lease._state, lease._reason) == ("lost", "expired")
    assert setup.context.losses == 1
    assert not setup.watchdog.holds
    assert "expired: no renewal was confirmed in time" in caplog.text
    setup.clock.sleep(LEASE)
    assert setup.clock.pending == []


@pytest.mark.parametrize("answered", [False, True])
async def test_redis_may_keep_what_a_renewal_asked_for(setup: Setup, answered: bool) -> None:
    hold = setup.hold()
    make_lease(hold)
    assert hold.may_last_until == setup.clock.present + LEASE
    setup.clock.sleep(LEASE / 3)
    if answered:
        await setup.last.answer(1)
    # It may have been executed as late as its deadline.
    assert hold.may_last_until == pytest.approx(setup.clock.present + LEASE / 6 + LEASE)


async def test_nothing_is_renewed_after_it_was_removed(setup: Setup) -> None:
    gone, kept = setup.hold(1), setup.hold(2)
    lease = make_lease(gone)
    make_lease(kept)
    setup.clock.sleep(LEASE / 3)
    gone.end("released")
    await setup.last.answer(0, 1)
    assert lease._state == "held", "it is being released; that Redis has it no more is no loss"
    for _ in range(5):
        setup.clock.sleep(LEASE / 3)
        assert setup.last.keys == [b"k2"]
        await setup.executor.answer_all()
    kept.end("released")
    asked = len(setup.executor.renewals)
    setup.clock.sleep(10 * LEASE)
    assert len(setup.executor.renewals) == asked
    assert setup.clock.pending == []


async def test_a_failure_that_comes_after_the_release_asks_nothing(setup: Setup) -> None:
    hold = setup.hold()
    make_lease(hold)
    setup.clock.sleep(LEASE / 3)
    hold.end("released")
    await setup.last.fail(NO_ANSWER)
    setup.clock.sleep(LEASE)
    assert len(setup.executor.renewals) == 1
    assert hold.state == "released"


async def test_after_closing_an_answer_changes_nothing_any_more(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    make_lease(setup.hold())
    setup.clock.sleep(LEASE / 3)
    setup.watchdog.close()
    await setup.last.fail(ConnectionLostError("gone", maybe_held=False))
    assert setup.clock.pending == []
    assert setup.context.losses == 0
    setup.executor.renewals.clear()
    gc.collect()
    assert caplog.records == [], "an error that nobody looked at is reported when it is collected"


async def test_a_closed_client_asks_nothing_and_says_so_once(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    make_lease(setup.hold())
    setup.executor.closed = True
    setup.clock.sleep(LEASE / 3)
    assert [record.getMessage() for record in caplog.records] == [
        "renewal failed: the client is closed"
    ]
    setup.watchdog.close()
    assert setup.clock.pending == []
