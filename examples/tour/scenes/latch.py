"""CountDownLatch: a job starts when three workers are ready."""

from __future__ import annotations

import asyncio

from examples.tour.me import Me
from examples.tour.stage import Stage

WORKERS = 3


async def worker(me: Me, *, seconds: dict[str, float]) -> None:
    """Get ready, and say so."""
    await me.hears("start")
    await asyncio.sleep(seconds[me.name])
    me.tell("ready to work")
    left = await me.client.get_latch("workers").count_down()
    me.tell("counted", left=left)


async def job(me: Me) -> None:
    """Wait for all workers."""
    me.tell("waits")
    await me.client.get_latch("workers").wait()
    me.tell("started")


async def scene(stage: Stage) -> None:
    """Two jobs wait for three workers."""
    await stage.client.get_latch("workers").try_set_count(WORKERS)
    jobs = await stage.start(job, "job-1", "job-2")
    seconds = {"worker-1": 0.5, "worker-2": 0.1, "worker-3": 0.3}
    workers = await stage.start(worker, *seconds, seconds=seconds)
    for each in jobs:
        await each.says("waits")
    stage.say("two jobs wait for three workers, which need different times to get ready")
    for each in workers:
        each.tell("start")
    ready = [(await each.says("ready to work")).at for each in workers]
    counts = [(await each.says("counted"))["left"] for each in workers]
    stage.check(
        "each counts down by one",
        sorted(counts) == list(range(WORKERS)),
        f"{', '.join(map(str, sorted(counts, reverse=True)))} left",
    )
    after = [(await each.says("started")).at - max(ready) for each in jobs]
    stage.check(
        "no job began before the last worker was ready, then both",
        min(after) > 0,
        f"after {max(after) * 1000:.1f} ms",
    )
