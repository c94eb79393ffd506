"""One run: servers, resource, workers, nemeses; then the verdicts over what they recorded.

`python -m tests.jepsen.run FOLDER` carries out the plan in a folder, and writes its result beside
the histories. It ends what it started when its standard input ends.
"""

from __future__ import annotations

import asyncio
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.jepsen.field import Field, WorkerProcess
from tests.jepsen.history import Recorder
from tests.jepsen.judge import judge, note_failures
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.nemeses.nemesis import Nemesis
from tests.jepsen.plan import Plan
from tests.jepsen.probe import probing
from tests.jepsen.result import Result
from tests.jepsen.topologies import TOPOLOGIES
from tests.jepsen.worker import WorkerSpec
from tests.jepsen.workloads import WORKLOADS

#: Seconds in which a worker must come to its end after the nemeses have ended.
QUIET = 30.0


async def run(plan: Plan, folder: Path) -> Result:
    """Carry a plan out and judge it; its histories are kept in a folder."""
    await record(plan, folder)
    return judge(folder)


async def record(plan: Plan, folder: Path) -> None:
    """Carry a plan out."""
    plan.save(folder)
    workload, chance = WORKLOADS[plan.workload], random.Random(plan.seed)
    writer = Recorder(folder, "nemesis")
    async with (
        TOPOLOGIES[plan.topology](writer, plan.needs, folder) as field,
        _resource(folder) as port,
        probing(field, folder, workload.objects, plan.facts) as probe,
    ):
        for number in range(workload.processes):
            way = await field.way(f"w{number}")
            spec = WorkerSpec.of(
                workload,
                f"w{number}",
                folder,
                urls=way.urls,
                options={**workload.options, **way.options},
                resource=port,
                seed=chance.randrange(1 << 30),
                source=way.source,
            )
            field.workers.append(WorkerProcess(spec))
        field.lease_time = float(workload.options["lease_time"])
        try:
            await asyncio.gather(*[worker.start() for worker in field.workers])
            await _strike(plan, field, chance)
            await field.heal()
            await asyncio.gather(*[worker.stop(QUIET) for worker in field.workers])
            await probe.ended()
            await probe.quiet()
        finally:
            await asyncio.gather(*[worker.kill() for worker in field.workers])
    for worker in field.workers:
        worker.look_at_log()
    note_failures(folder, [worker.failure for worker in field.workers if worker.failure])


async def _strike(plan: Plan, field: Field, chance: random.Random) -> None:
    """Have the nemeses strike for the time of the plan; a strike comes to its end."""
    ended = asyncio.Event()
    seeds = [chance.randrange(1 << 30) for _ in plan.nemeses]
    async with asyncio.TaskGroup() as striking:
        for name, seed in zip(plan.nemeses, seeds, strict=True):
            striking.create_task(_keep_striking(NEMESES[name], field, random.Random(seed), ended))
        await asyncio.sleep(plan.seconds)
        ended.set()


async def _keep_striking(
    nemesis: Nemesis, field: Field, chance: random.Random, ended: asyncio.Event
) -> None:
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.uniform(*nemesis.pause)):
                await ended.wait()
                return
        # What one strike draws while it lasts, for each command that passes, must not decide what
        # the next one does.
        await nemesis.strike(field, random.Random(chance.randrange(1 << 30)))


@asynccontextmanager
async def _resource(folder: Path) -> AsyncIterator[int]:
    command = [sys.executable, "-m", "tests.jepsen.resource", str(folder)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.stdin.close()
        code = await process.wait()
    if code:
        raise RuntimeError(f"the resource ended with {code}")


async def _until_asked(folder: Path) -> None:
    """Record the plan of a folder, unless standard input ends first."""
    loop = asyncio.get_running_loop()
    recording = asyncio.ensure_future(record(Plan.load(folder), folder))
    loop.add_reader(sys.stdin, recording.cancel)
    try:
        await recording
    finally:
        loop.remove_reader(sys.stdin)


def main() -> int:
    """Carry out the plan of the folder on the command line."""
    folder = Path(sys.argv[1])
    with suppress(asyncio.CancelledError):
        asyncio.run(_until_asked(folder))
        judge(folder).save(folder)
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
