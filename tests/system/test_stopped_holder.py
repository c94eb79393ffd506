"""Holders that are stopped (SIGSTOP) past their leases and find, awake again, others inside."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process

from redisson_py import Lease
from redisson_py._time import now
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured

PROCESSES = 3
LOCKS = 40


async def test_a_stopped_body_does_nothing_more_after_its_first_await(
    server_url: str, clients: ClientFactory, measured: Measured
) -> None:
    rival = clients()
    names = [[f"k{number}-{n}" for n in range(LOCKS)] for number in range(PROCESSES)]
    let_in: dict[str, float] = {}

    async def take_over(name: str) -> Lease:
        lease = await rival.get_lock(name).acquire(timeout=30)
        let_in[name] = now()
        return lease

    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.system.stepper", server_url, "3", *some), stdout=PIPE
        )
        for some in names
    ]
    try:
        for process in processes:
            assert await read_row(process) == "held"
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        leases = await asyncio.gather(*[take_over(name) for some in names for name in some])
        for process in processes:
            process.send_signal(signal.SIGCONT)
        steps: dict[str, list[tuple[float, bool]]] = {}
        for process in processes:
            steps |= json.loads(await read_row(process))
        assert not any(lease.lost for lease in leases)
        for lease in leases:
            await lease.release()
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    late = {name: [lost for at, lost in steps[name] if at >= let_in[name]] for name in steps}
    measured("bodies stopped past their lease", len(late))
    measured("of these were about to be resumed, and were", sum(map(bool, late.values())))
    assert len(late) == PROCESSES * LOCKS
    # A body that was about to be resumed when the process stopped is resumed, this once; but
    # `lease.lost`, which reads the clock, tells it the truth.
    assert all(len(lost) <= 1 and all(lost) for lost in late.values()), late


async def read_row(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode().strip()
