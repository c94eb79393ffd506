"""One run: servers, resource, workers, nemeses; then the verdicts over what they recorded."""

from __future__ import annotations

import asyncio
import random
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.jepsen.checkers import CHECKERS
from tests.jepsen.checkers.verdict import Verdict
from tests.jepsen.field import Field, WorkerProcess
from tests.jepsen.history import History, Recorder, read_history
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.nemeses.nemesis import Nemesis
from tests.jepsen.probe import probing
from tests.jepsen.topologies import TOPOLOGIES
from tests.jepsen.worker import WorkerSpec
from tests.jepsen.workloads import WORKLOADS

#: Seconds in which a worker must come to its end after the nemeses have ended.
QUIET = 30.0


@dataclass(frozen=True)
class Plan:
    """What is run; the same plan makes the same choices."""

    workload: str
    nemeses: tuple[str, ...]
    topology: str
    seconds: float
    seed: int

    @property
    def command(self) -> str:
        """The command that repeats it."""
        nemeses = ",".join(self.nemeses) or "none"
        return (
            f'make jepsen ARGS="--workload {self.workload} --nemesis {nemeses}'
            f' --topology {self.topology} --seconds {self.seconds:g} --seed {self.seed}"'
        )


@dataclass(frozen=True)
class Result:
    """What came out of a run."""

    plan: Plan
    history: History
    verdicts: dict[str, Verdict]
    trouble: Sequence[str]

    @property
    def ok(self) -> bool:
        """Whether every checker is content and every worker ended well."""
        return not self.trouble and all(each.ok for each in self.verdicts.values())


async def run(plan: Plan, folder: Path) -> Result:
    """Carry a plan out; its histories are kept in a folder."""
    workload, chance = WORKLOADS[plan.workload], random.Random(plan.seed)
    record = Recorder(folder, "nemesis")
    needs = frozenset(need for name in plan.nemeses for need in NEMESES[name].needs)
    async with (
        TOPOLOGIES[plan.topology](record, needs, folder) as field,
        _resource(folder) as port,
        probing(field, folder) as probe,
    ):
        for number in range(workload.processes):
            way = await field.way(f"w{number}")
            spec = WorkerSpec(
                name=f"w{number}",
                folder=str(folder),
                workload=plan.workload,
                urls=way.urls,
                options={**workload.options, **way.options},
                objects=list(workload.objects),
                tasks=workload.tasks,
                resource=port,
                seed=chance.randrange(1 << 30),
                settings=workload.facts.settings,
                source=way.source,
            )
            field.workers.append(WorkerProcess(spec))
        field.lease_time = float(workload.options["lease_time"])
        try:
            await asyncio.gather(*[worker.start() for worker in field.workers])
            await _strike(plan, field, chance)
            await field.heal()
            await asyncio.gather(*[worker.stop(QUIET) for worker in field.workers])
            await probe.look("quiet")
        finally:
            await asyncio.gather(*[worker.kill() for worker in field.workers])
    history = read_history(folder)
    verdicts = {name: CHECKERS[name](history, workload.facts) for name in workload.checkers}
    return Result(plan, history, verdicts, [w.trouble for w in field.workers if w.trouble])


async def _strike(plan: Plan, field: Field, chance: random.Random) -> None:
    """Have the nemeses strike for the time of the plan."""
    seeds = [chance.randrange(1 << 30) for _ in plan.nemeses]
    striking = [
        asyncio.create_task(_keep_striking(NEMESES[name], field, random.Random(seed)))
        for name, seed in zip(plan.nemeses, seeds, strict=True)
    ]
    try:
        if striking:
            await asyncio.wait(striking, timeout=plan.seconds, return_when=asyncio.FIRST_EXCEPTION)
        else:
            await asyncio.sleep(plan.seconds)
    finally:
        for task in striking:
            task.cancel()
        outcomes = await asyncio.gather(*striking, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


async def _keep_striking(nemesis: Nemesis, field: Field, chance: random.Random) -> None:
    while True:
        await asyncio.sleep(chance.uniform(*nemesis.pause))
        await nemesis.strike(field, chance)


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
        await process.wait()
