"""What nemeses do to processes of workers really happens."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.jepsen.fields import field_for, striking
from tests.jepsen.history import read_history
from tests.jepsen.plan import Plan
from tests.jepsen.run import record
from tests.support.waiting import until


async def test_a_paused_process_stands_still(tmp_path: Path) -> None:
    async with field_for(tmp_path, "pause") as field:
        process = await asyncio.create_subprocess_exec("sleep", "30")
        field.workers[0]._process = process
        state = Path(f"/proc/{process.pid}/stat")
        try:
            async with striking(field, "pause"):
                await until(lambda: state.read_text().split()[2] == "T")
            await until(lambda: state.read_text().split()[2] == "S")
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()


async def test_workers_are_killed_blocked_and_cancelled(tmp_path: Path) -> None:
    names = ("kill", "block", "cancel")
    await record(Plan("mutex", names, "single", seconds=4.0, seed=1), tmp_path)
    history = read_history(tmp_path)
    assert {op.rid for op in history.of("nemesis")} == {*names}
    lives = {op.rid.partition("/")[0] for op in history.of("acquire")}
    # One life of each of four workers, and what came after a SIGKILL.
    assert len(lives) > 4
    assert history.of("blocked")
    assert history.of("cancelled")
