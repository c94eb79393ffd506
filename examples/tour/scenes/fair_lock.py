"""FairLock: first come, first served, across processes."""

from __future__ import annotations

import asyncio
import random

from examples.tour.me import Me
from examples.tour.stage import Stage

CUSTOMERS = 9


async def shop(me: Me) -> None:
    """Have customers of our own stand in the line that all shops share."""
    lock = me.client.get_fair_lock("counter")

    async def customer(number: int) -> None:
        await me.hears(f"come {number}")
        async with lock:
            me.tell("served", number=number)
            await asyncio.sleep(0.01)

    coming = [asyncio.create_task(customer(number)) for number in range(CUSTOMERS)]
    await me.hears("close")
    for task in coming:
        task.cancel()
    await asyncio.wait(coming)


async def scene(stage: Stage) -> None:
    """Customers of three processes come one after the other, and are served in that order."""
    shops = await stage.start(shop, "shop-a", "shop-b", "shop-c")
    lock = stage.client.get_fair_lock("counter")
    came = shops * (CUSTOMERS // len(shops))
    random.shuffle(came)
    async with lock:
        for number, visitor in enumerate(came):
            visitor.tell(f"come {number}")

            async def stands(number: int = number) -> bool:
                return len((await lock.inspect()).waiters or ()) == number + 1

            await stage.until(stands, f"customer {number} does not stand in the line")
        order = " ".join(visitor.name[-1] for visitor in came)
        stage.say(f"the counter is closed; {CUSTOMERS} customers come, from shops {order}")

    for visitor in came:
        await visitor.says("served")
    served = sorted(
        (report.at, report["number"], visitor.name[-1])
        for visitor in shops
        for report in visitor.all("served")
    )
    numbers = [number for _, number, _ in served]
    stage.check(
        "it opens, and they are served in the order they came",
        numbers == list(range(CUSTOMERS)),
        " ".join(name for *_, name in served),
    )
    for visitor in shops:
        visitor.tell("close")
