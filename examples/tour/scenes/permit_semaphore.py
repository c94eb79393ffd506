"""PermitExpirableSemaphore: permits that expire, and that another process can release by id."""

from __future__ import annotations

import asyncio
import time

from examples.tour.me import Me
from examples.tour.stage import Stage

RENT = 0.8


async def renter(me: Me) -> None:
    """Take a permit for a fixed time, and overstay."""
    semaphore = me.client.get_permit_expirable_semaphore("rooms")
    me.tell("asks")
    permit = await semaphore.acquire(lease_time=RENT)
    me.tell("has", id=permit.id)
    await permit.wait_lost()
    me.tell("over")


async def web(me: Me) -> None:
    """Take a permit for a job that another process will do; it may take a minute."""
    semaphore = me.client.get_permit_expirable_semaphore("rooms")
    permit = await semaphore.acquire(lease_time=60)
    me.tell("has", id=permit.id)
    await asyncio.Event().wait()


async def worker(me: Me, *, permit_id: str) -> None:
    """Do the job, and give back the permit that came with it."""
    semaphore = me.client.get_permit_expirable_semaphore("rooms")
    gave_back = await semaphore.try_release(permit_id)
    again = await semaphore.try_release(permit_id)
    me.tell("released", first=gave_back, second=again)


async def scene(stage: Stage) -> None:
    """One permit is never given back, another by somebody else."""
    rooms = stage.client.get_permit_expirable_semaphore("rooms")
    await rooms.try_set_permits(2)

    async def both_free() -> bool:
        return await rooms.available() == 2

    [guest] = await stage.start(renter, "renter")
    asked = await guest.says("asks")
    await guest.says("has")
    stage.say(f"{guest} takes one of two permits for {RENT} s, and never releases it")
    await stage.until(both_free, "the permit did not come back")
    after = time.monotonic() - asked.at
    since = "it was asked for"
    stage.check_lease("it expired and is free again", after, since, whole=True, lease_time=RENT)
    waited = (await guest.says("over")).at - asked.at
    stage.check_lease("its holder learned of it", waited, since, lease_time=RENT)

    [front] = await stage.start(web, "web")
    permit_id = (await front.says("has"))["id"]
    front.kill()
    stage.say(f"{front} takes permit {permit_id[:8]}... for a job, and is killed")
    left = await rooms.available()
    stage.check("the permit is still taken", left == 1, f"{left} of 2 are free")
    [back] = await stage.start(worker, "worker", permit_id=permit_id)
    released = await back.says("released")
    stage.say(f"{back} does the job and releases the permit by its id")
    answers = [released["first"], released["second"]]
    stage.check("that works once", answers == [True, False], f"{answers} when done twice")
    left = await rooms.available()
    stage.check("it is free at once", left == 2, f"{left} of 2 are free")
