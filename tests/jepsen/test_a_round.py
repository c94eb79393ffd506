"""A few minutes of it: every workload, nemesis and topology, with fixed seeds."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from tests.fixtures.measured import Measured
from tests.jepsen import choose, report, rounds
from tests.jepsen.history import say
from tests.jepsen.machine import to_do_without

JOBS = 2


@pytest.mark.timeout(1500)
async def test_no_rule_is_broken(tmp_path: Path, measured: Measured) -> None:
    # What is missing leaves nemeses out; never in CI.
    plans = choose.default_round(None, 17, to_do_without())
    results = []
    async with aclosing(rounds.several(plans, tmp_path, JOBS)) as finished:
        async for result in finished:
            results.append(result)
            say(report.row(result))
    measured("the round", report.summary(results))
    assert len(results) == len(plans)
    failed = [report.failure(result) for result in results if not result.ok]
    assert not failed, "\n\n".join(failed)
