"""Lost lease: the holder learns that it lost the lock, and its work is cancelled."""

from __future__ import annotations

import asyncio
import time

from examples.tour.me import Me
from examples.tour.stage import LEASE_TIME, Stage
from redisson_py import LeaseLostError


async def uploader(me: Me) -> None:
    """Do something long inside the lock."""
    await me.hears("start")
    me.tell("asks")
    try:
        async with me.client.get_lock("upload"):
            me.tell("inside")
            try:
                await me.hears("finish")
                me.tell("finished")
            except asyncio.CancelledError:
                me.tell("cancelled")
                raise
    except LeaseLostError as error:
        me.tell("lost", error=f"{type(error).__name__}: {error}")


async def scene(stage: Stage) -> None:
    """A holder sleeps through the end of its lease."""
    sleeper, next_one = await stage.start(uploader, "sleeper", "next", struck="sleeper")
    sleeper.tell("start")
    asked = await sleeper.says("asks")
    await sleeper.says("inside")
    sleeper.stop()
    stage.say(f"{sleeper} is inside an upload, and its machine is suspended (SIGSTOP)")
    next_one.tell("start")
    after = (await next_one.says("inside")).at - asked.at
    stage.check_lease(
        f"{next_one.name} got in when the lease of {LEASE_TIME} s was over, not before",
        after,
        "the holder asked",
        whole=True,
    )
    woken_at = time.monotonic()
    sleeper.wake()
    stage.say(f"{sleeper.name} wakes up (SIGCONT) in the middle of its upload")
    cancelled = await sleeper.says("cancelled")
    lost = await sleeper.says("lost")
    stage.check(
        "the body of its block was cancelled",
        cancelled.at > woken_at,
        f"{(cancelled.at - woken_at) * 1000:.0f} ms later",
    )
    stage.check("and the block raised an error", lost.at >= cancelled.at, lost["error"])
    next_one.tell("finish")
    await next_one.says("finished")
    await sleeper.leaves()
    finished = len(sleeper.all("finished")) + len(next_one.all("finished"))
    stage.check("one of two has finished its upload", finished == 1, f"{finished} of 2")
