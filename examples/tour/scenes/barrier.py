"""CyclicBarrier: rounds in step; nobody waits forever for a process that died."""

from __future__ import annotations

import asyncio
import random
import time

from examples.tour.me import Me
from examples.tour.stage import LEASE_TIME, Stage
from redisson_py import BrokenBarrierError

PARTIES = 3
ROUNDS = 4


async def party(me: Me) -> None:
    """Work in rounds; nobody begins a round before all have ended the last one."""
    barrier = me.client.get_barrier("round", PARTIES)
    await me.hears("start")
    for _ in range(ROUNDS):
        await asyncio.sleep(random.uniform(0.01, 0.1))
        me.tell("ends")
        position = await barrier.wait()
        me.tell("passed", position=position)

    await me.hears("once more")
    try:
        await barrier.wait()
    except BrokenBarrierError:
        me.tell("broken")


async def scene(stage: Stage) -> None:
    """Three processes work in rounds, until one is killed."""
    parties = await stage.start(party, "red", "green", "blue", struck="green")
    stage.say(f"three processes work {ROUNDS} rounds, each as long as it likes")
    for each in parties:
        each.tell("start")
    gaps, positions = [], []
    for _ in range(ROUNDS):
        ends = [(await each.says("ends")).at for each in parties]
        passed = [await each.says("passed") for each in parties]
        gaps.append(min(report.at for report in passed) - max(ends))
        positions.append(sorted(report["position"] for report in passed))
    stage.check(
        "nobody went on before the slowest ended its round",
        min(gaps) > 0,
        f"at least {min(gaps) * 1000:.1f} ms later",
    )
    stage.check(
        "in each round each got a different position",
        positions == [list(range(PARTIES))] * ROUNDS,
        f"{positions}",
    )

    barrier = stage.client.get_barrier("round", PARTIES)
    red, green, blue = parties
    red.tell("once more")
    green.tell("once more")

    async def two_wait() -> bool:
        return await barrier.n_waiting() == 2

    await stage.until(two_wait, "two do not wait")
    stage.say("red and green wait for blue; kill -9 green")
    killed_at = time.monotonic()
    green.kill()
    after = (await red.says("broken")).at - killed_at
    stage.check_lease(
        f"red got BrokenBarrierError when green's lease of {LEASE_TIME} s was over",
        after,
        "the kill",
    )
    blue.tell("once more")
    await blue.says("broken")
    broken = await barrier.broken()
    stage.check("blue, which came later, got it as well", broken, f"broken() says {broken}")
    await barrier.reset()
    broken = await barrier.broken()
    stage.check("reset() repairs it", not broken, f"broken() says {broken}")
