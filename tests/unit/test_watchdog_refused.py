"""What the watchdog asks and says while the server refuses to renew."""

from __future__ import annotations

import pytest

from redisson_py._engine.watchdog import BATCH
from redisson_py._stream.call import ReplyError
from tests.unit.fakes import LEASE, make_lease
from tests.unit.watchdog_setup import Renewal, Setup


async def test_a_crowd_of_refused_keys_is_told_in_one_record_and_halved_once(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    number = 3 * BATCH
    leases = [make_lease(setup.hold(each)) for each in range(number)]
    setup.executor.refused = {b"k%d" % each for each in range(number)}
    while setup.clock.present < 1000 + LEASE:
        setup.clock.sleep(0.1)
        await setup.executor.answer_all()
    assert all(lease.lost for lease in leases)
    halving = 3 * (2 * BATCH - 1)
    asked_in_vain = len(setup.executor.renewals) - halving
    # One command a batch, at intervals that grow to a sixth of the lease.
    assert 3 * 3 <= asked_in_vain <= 3 * 12
    records = [text for text in caplog.messages if "refused to renew" in text]
    assert sum(int(record.split()[5]) for record in records) == number, "each once"
    assert len(records) <= 3, "not more than batches"


async def test_what_the_server_refuses_whatever_the_key_is_one_refusal(
    setup: Setup, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3 * BATCH):
        make_lease(setup.hold(number))
    error = ReplyError("NOPERM User x has no permissions to run the 'evalsha' command")
    asked = 0
    while setup.clock.present < 1000 + LEASE * 0.8:
        setup.clock.sleep(0.05)
        for renewal in list(setup.executor.unanswered):
            assert len(renewal.owners) == BATCH, "nothing is halved"
            asked += 1
            await renewal.fail(error)
    assert 3 * 3 <= asked <= 3 * 12
    assert len(caplog.records) == 1
    # It is news again after a renewal.
    await (await answer_next(setup)).answer(*[1] * BATCH)
    await (await answer_next(setup)).fail(error)
    assert len(caplog.records) == 2


async def answer_next(setup: Setup) -> Renewal:
    """Return the next renewal without an answer."""
    while not setup.executor.unanswered:
        setup.clock.sleep(0.05)
    return setup.executor.unanswered[0]
