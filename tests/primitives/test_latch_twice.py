"""Jobs that are delivered twice: what a count of their own does, and the code in docs/safety.md."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import AcquireTimeoutError, Redisson
from tests.fixtures.client import ClientFactory
from tests.support import repository

TITLE = "## A latch and jobs that are delivered twice\n"
JOBS = ["a", "b", "c"]


def documented() -> dict[str, Any]:
    """Return what the code in that section defines."""
    text = (repository.ROOT / "docs" / "safety.md").read_text("utf-8")
    section = text.partition(TITLE)[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    defined: dict[str, Any] = {}
    exec(code, defined)
    return defined


async def test_a_count_of_its_own_sets_an_open_latch_again(client: Redisson) -> None:
    """What the documents warn of."""
    for _ in JOBS:
        await client.get_latch("jobs", 3).count_down()
    await client.get_latch("jobs").wait(timeout=10)
    await client.get_latch("jobs", 3).count_down()
    with pytest.raises(AcquireTimeoutError):
        await client.get_latch("jobs").wait(timeout=0)
    assert await client.get_latch("jobs").delete()


async def test_a_run_is_finished_when_each_job_is_done_however_often(
    clients: ClientFactory, redis: Redis
) -> None:
    code = documented()
    coordinator, worker = clients(), clients()
    queue: list[tuple[str, str]] = []

    async def send(run: str, job: str) -> None:
        queue.append((run, job))

    run = await code["begin"](coordinator, JOBS, send)
    assert queue == [(run, job) for job in JOBS]
    for _ in range(3):
        await code["done"](worker, *queue[0])
    await code["done"](worker, *queue[1])
    # Four deliveries are done, and one job of three is not.
    with pytest.raises(TimeoutError):
        await code["finished"](coordinator, run, JOBS, 0.5)
    waiting = asyncio.create_task(code["finished"](coordinator, run, JOBS, 60))
    await code["done"](worker, *queue[2])
    await waiting
    for delivery in queue:
        await code["done"](worker, *delivery)
    await code["finished"](coordinator, run, JOBS, 60)
    assert [key async for key in redis.scan_iter(f"run:{run}:*")] == []


async def test_a_coordinator_that_runs_twice_makes_another_run(client: Redisson) -> None:
    code = documented()

    async def work(run: str, job: str) -> None:
        await code["done"](client, run, job)

    runs = [await code["begin"](client, JOBS, work) for _ in range(2)]
    assert runs[0] != runs[1]
    for run in runs:
        await code["finished"](client, run, JOBS, 60)
