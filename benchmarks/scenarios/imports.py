"""How long an import takes in a fresh Python, beyond what Python itself needs to start."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.crew import Bench, alternately
from benchmarks.harness import Table

NAME = "imports"
COLUMN = "ms"
OURS = "import redisson_py"
REDIS = "import redis.asyncio"

_ROOT = Path(__file__).parents[2]
_NOTHING = "pass"


async def measure(bench: Bench) -> Table:
    """Start all in turn; each figure is the difference to an empty program of its round."""
    table = Table(NAME, "Time of an import in a fresh process, less that of an empty program")
    rounds: dict[int, dict[str, float]] = {}
    with TemporaryDirectory() as compiled:
        for program in (OURS, REDIS):
            # Compiled and in the disk's cache, as in a service's second start.
            await _seconds(program, compiled)
        for done, program in alternately((_NOTHING, OURS, REDIS), bench.size.imports):
            rounds.setdefault(done, {})[program] = await _seconds(program, compiled) * 1e3
    for times in rounds.values():
        for program in (OURS, REDIS):
            table.add(program, {COLUMN: times[program] - times[_NOTHING]})
    return table


async def _seconds(program: str, compiled: str) -> float:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    # Where it is set, everything would be compiled each time.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=_ROOT, env=environment
    )
    status = await process.wait()
    found = perf_counter() - start
    assert status == 0, program
    return found
