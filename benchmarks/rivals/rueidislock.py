"""rueidislock, the lock of rueidis, Redis' own client for Go; a Go program a side.

The program is in `rueidislock_go`; `go build` makes it, from Go's cache after the first time.
"""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import subprocess
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

from benchmarks.crew import LONGEST, Worker
from benchmarks.rivals.side import CannotError, Pairs, ProgramSide

SOURCE = Path(__file__).parent / "rueidislock_go"

#: Until a first build has downloaded and compiled everything.
_PATIENCE = 300


class Rueidislock(ProgramSide):
    """One locker for one server (`KeyMajority: 1`, `NoLoopTracking`); its users are goroutines."""

    async def open(self, url: str) -> None:
        """Build and start the program and wait until it is connected."""
        program = await asyncio.to_thread(_built)
        self._program = Worker(
            await asyncio.create_subprocess_exec(
                program, url, stdin=PIPE, stdout=PIPE, limit=LONGEST
            )
        )
        await self._program.hear()

    async def close(self) -> None:
        """Have it end."""
        await self._program.end()

    async def pairs(self, tasks: int, seconds: float, prefix: str) -> Pairs:
        """Have goroutines do it."""
        return Pairs(**await self._program.do("pairs", tasks=tasks, seconds=seconds, prefix=prefix))

    async def order(self, job: str, **order: Any) -> Any:
        """Have the program do it."""
        return await self._program.do(job, **order)

    async def sections(self, **order: Any) -> list[tuple[int, int, int]]:
        """Do nothing: only its pairs are compared."""
        raise CannotError("only its pairs are compared")


def _built() -> Path:
    """Build the program, if need be; return where it is.

    Raises:
        CannotError: `go` is missing, or could not build it.
    """
    go = shutil.which("go")
    if go is None:
        raise CannotError("needs go on the PATH")
    target = SOURCE / "target"
    target.mkdir(exist_ok=True)
    program = target / "rueidislock"
    with (target / "lock").open("w") as lock:
        # Several runs may start at once from one checkout.
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            subprocess.run(
                [go, "build", "-buildvcs=false", "-o", program, "."],
                cwd=SOURCE,
                check=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
            )
        except subprocess.CalledProcessError as error:
            last = (error.stderr.strip().splitlines() or ["no words"])[-1]
            raise CannotError(f"go could not build it ({last})") from error
        except subprocess.TimeoutExpired as error:
            raise CannotError(f"go did not build it in {_PATIENCE} s") from error
    return program
