"""Semaphore: at most five at once, across processes; a killed holder's permits return."""

from __future__ import annotations

import asyncio
import time

from examples.tour.me import Me
from examples.tour.stage import LEASE_TIME, Stage, most_at_once, stays

PERMITS = 5
CALLS = 10


async def service(me: Me) -> None:
    """Call something that bears five calls at once."""
    semaphore = me.client.get_semaphore("calls", PERMITS)

    async def call() -> None:
        async with semaphore:
            me.tell("calls")
            await asyncio.sleep(0.04)
            me.tell("called")

    await me.hears("start")
    await asyncio.gather(*[call() for _ in range(CALLS)])
    me.tell("done")


async def batch(me: Me, *, permits: int) -> None:
    """Take several permits, all or none."""
    semaphore = me.client.get_semaphore("calls", PERMITS)
    me.tell("wants")
    async with semaphore.hold(n=permits):
        me.tell("has")
        await me.hears("leave")


async def scene(stage: Stage) -> None:
    """Four services share five permits; then a holder of three is killed."""
    services = await stage.start(service, "service-1", "service-2", "service-3", "service-4")
    stage.say(f"four processes make {CALLS} calls each, {PERMITS} permits for all of them")
    for each in services:
        each.tell("start")
    for each in services:
        await each.says("done")
    most = most_at_once(stays(services, "calls", "called"))
    stage.check(
        f"never more than {PERMITS} were called at once", most <= PERMITS, f"at most {most}"
    )

    [greedy] = await stage.start(batch, "greedy", struck="greedy", permits=3)
    await greedy.says("has")
    stage.say(f"{greedy} takes 3; somebody else wants all {PERMITS}")
    [patient] = await stage.start(batch, "patient", permits=PERMITS)
    await patient.says("wants")
    left = await stage.client.get_semaphore("calls").available()
    stage.check(
        "a request for more than are free takes none", left == PERMITS - 3, f"{left} are left"
    )
    killed_at = time.monotonic()
    greedy.kill()
    stage.say(f"kill -9 {greedy.name}")
    after = (await patient.says("has")).at - killed_at
    stage.check_lease(
        f"its permits returned when their lease of {LEASE_TIME} s was over", after, "the kill"
    )
    patient.tell("leave")
