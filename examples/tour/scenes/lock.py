"""Lock: one process at a time; a killed holder does not block others for long."""

from __future__ import annotations

import asyncio
import time

from examples.tour.me import Me
from examples.tour.stage import LEASE_TIME, Stage, most_at_once, stays

INVOICES = 15


async def service(me: Me) -> None:
    """Write invoices into a file, each with the next number; later, go in once more."""
    invoices = me.directory / "invoices"
    lock = me.client.get_lock("invoices")
    await me.hears("start")
    for _ in range(INVOICES):
        async with lock:
            me.tell("in")
            number = len(invoices.read_text().splitlines()) + 1
            await asyncio.sleep(0.005)
            with invoices.open("a") as file:
                file.write(f"{number}\n")
            me.tell("out")
    me.tell("done")

    await me.hears("once more")
    me.tell("waits")
    async with lock:
        me.tell("inside")
        await me.hears("leave")


async def scene(stage: Stage) -> None:
    """Two services share a file; then one of them is killed inside."""
    invoices = stage.directory / "invoices"
    invoices.touch()
    one, two = await stage.start(service, "billing-1", "billing-2", struck="billing-1")
    stage.say(f"{one} and {two} write {INVOICES} invoices each into one file")
    one.tell("start")
    two.tell("start")
    await one.says("done")
    await two.says("done")
    most = most_at_once(stays((one, two), "in", "out"))
    stage.check("one at a time held the lock", most == 1, f"at most {most} at once")
    numbers = [int(row) for row in invoices.read_text().splitlines()]
    stage.check(
        "no number was given twice and none is missing",
        numbers == list(range(1, 2 * INVOICES + 1)),
        f"{len(numbers)} invoices, {len(set(numbers))} numbers, the last is {numbers[-1]}",
    )

    one.tell("once more")
    await one.says("inside")
    two.tell("once more")
    await two.says("waits")
    await asyncio.sleep(0.3)
    killed_at = time.monotonic()
    one.kill()
    stage.say(f"{one.name} is inside, {two.name} waits; kill -9 {one.name}")
    after = (await two.says("inside")).at - killed_at
    stage.check_lease(
        f"{two.name} got in when the lease of {LEASE_TIME} s was over", after, "the kill"
    )
    two.tell("leave")
