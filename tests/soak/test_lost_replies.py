"""Ten thousand lost replies leave no double effect; a script that is not safe to repeat would."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from redisson_py.testing import EmbeddedServer
from tests.fixtures.measured import Measured
from tests.mutants.mutant import Change
from tests.mutants.trees import Trees, output_of
from tests.soak.lost_replies import FEWEST, figures, storm
from tests.soak.weather import CALLS

LOST = 10_000

SABOTAGE = {
    "an acquire counts up": Change(
        "lua/lock/acquire.lua",
        "local added = math.max(count, holds) - count",
        "local added = 1",
    ),
    "an acquire ignores the tombstone": Change(
        "lua/lock/acquire.lua",
        "if holds == 1 and redis.call('EXISTS', lock, tombstone) == 0 then",
        "if holds == 1 and redis.call('EXISTS', lock) == 0 then",
    ),
    "a fenced acquire takes new tokens": Change(
        "lua/fenced_lock/acquire.lua",
        "first = last - tokens + 1",
        "first = last + 1 redis.call('INCRBY', token, tokens)",
    ),
    "a release counts down": Change(
        "lua/lock/release.lua",
        "local removed = count - math.min(count, holds)",
        "local removed = 1",
    ),
    "an extend adds": Change(
        "lua/lock/set_lease.lua",
        "redis.call('PEXPIRE', lock, string.format('%.0f', lease_ms))",
        "redis.call('PEXPIRE', lock, lease_ms + redis.call('PTTL', lock))",
    ),
}


async def test_no_double_effect(
    own_server: EmbeddedServer, measured: Measured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "redisson_py")  # each hold freed by force warns
    play = await storm(own_server.url, LOST)
    for what, count in figures(play).items():
        measured(what, f"{count:,}")
    assert play.losses.calls.total() >= LOST
    assert all(play.losses.calls[call] >= FEWEST for call in CALLS)
    assert play.compared > LOST / 4
    assert play.stragglers.delivered > LOST / 100
    assert play.findings == []


@pytest.mark.parametrize("sabotage", SABOTAGE.values(), ids=SABOTAGE)
async def test_a_script_that_is_not_safe_to_repeat_is_caught(
    sabotage: Change, tmp_path: Path
) -> None:
    words = ["-m", "tests.soak.lost_replies", "--lost", str(LOST // 3), "--fewest", "0"]
    async with Trees(tmp_path, 1).one() as tree:
        with sabotage.made(tree):
            code, output = await output_of([sys.executable, *words], tree, 300)
    assert code == 1
    assert int(output.partition("double effects")[2].split()[0].replace(",", "")) > 0
