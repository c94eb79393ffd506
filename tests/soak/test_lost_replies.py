"""Ten thousand lost replies leave no double effect; a script that is not safe to repeat would."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from pathlib import Path

import pytest

from redisson_py.testing import EmbeddedServer
from tests.fixtures.measured import Measured
from tests.soak.lost_replies import FEWEST, figures, storm
from tests.soak.weather import CALLS

LOST = 10_000
ROOT = Path(__file__).parents[2]

#: What a script says, and what it must not say instead.
SABOTAGE = {
    "an acquire counts up": (
        "lock/acquire.lua",
        "local added = math.max(count, holds) - count",
        "local added = 1",
    ),
    "an acquire ignores the tombstone": (
        "lock/acquire.lua",
        "redis.call('EXISTS', lock, tombstone) == 0",
        "redis.call('EXISTS', lock) == 0",
    ),
    "a fenced acquire takes new tokens": (
        "fenced_lock/acquire.lua",
        "first = last - tokens + 1",
        "first = last + 1 redis.call('INCRBY', token, tokens)",
    ),
    "a release counts down": (
        "lock/release.lua",
        "local removed = count - math.min(count, holds)",
        "local removed = 1",
    ),
    "an extend adds": (
        "lock/set_lease.lua",
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
    sabotage: tuple[str, str, str], own_server: EmbeddedServer, tmp_path: Path
) -> None:
    script, right, wrong = sabotage
    for folder in ("redisson_py", "lua", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    path = tmp_path / "lua" / script
    text = path.read_text("utf-8")
    assert right in text
    path.write_text(text.replace(right, wrong), "utf-8")
    command = ["-m", "tests.soak.lost_replies", "--lost", str(LOST // 3), "--fewest", "0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        "--server",
        str(own_server.binary),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    findings = int(told.decode().partition("double effects")[2].split()[0].replace(",", ""))
    assert findings > 0
    assert process.returncode == 1
