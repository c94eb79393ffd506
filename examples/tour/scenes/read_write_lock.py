"""ReadWriteLock: readers share, a writer is alone, and a writer becomes a reader without a gap."""

from __future__ import annotations

import asyncio

from examples.tour.me import Me
from examples.tour.stage import Stage, most_at_once, stays


async def reader(me: Me) -> None:
    """Read prices, twice."""
    lock = me.client.get_read_write_lock("prices").read_lock()
    for order in ("first", "second"):
        await me.hears(f"{order} turn")
        async with lock:
            me.tell("reads")
            await me.hears(f"end {order} turn")
            me.tell("read")


async def writer(me: Me) -> None:
    """Set prices, and read them before anybody sets them again."""
    lock = me.client.get_read_write_lock("prices")
    await me.hears("write")
    me.tell("waits")
    writing = await lock.write_lock().acquire()
    me.tell("writes")
    await me.hears("downgrade")
    async with lock.read_lock():
        me.tell("written")
        await writing.release()
        await me.hears("leave")
        me.tell("left")


async def scene(stage: Stage) -> None:
    """Three readers and a writer."""
    readers = await stage.start(reader, "reader-1", "reader-2", "reader-3")
    [shop] = await stage.start(writer, "writer")
    for each in readers:
        each.tell("first turn")
    for each in readers:
        await each.says("reads")
    stage.say("three readers are inside, in three processes")
    shop.tell("write")
    await shop.says("waits")
    await asyncio.sleep(0.2)
    for each in readers:
        each.tell("end first turn")
    ends = [(await each.says("read")).at for each in readers]
    most = most_at_once(stays(readers, "reads", "read"))
    stage.check("they were inside together", most == len(readers), f"{most} at once")
    after = (await shop.says("writes")).at - max(ends)
    stage.check(
        "the writer came in when the last reader left",
        after > 0,
        f"{after * 1000:.1f} ms later",
    )

    for each in readers:
        each.tell("second turn")
    stage.say("the writer is inside; the readers want in again")
    await asyncio.sleep(0.2)
    shop.tell("downgrade")
    written = await shop.says("written")
    stage.say("the writer becomes a reader (takes the read lock, then releases the write lock)")
    after = min([(await each.says("reads")).at for each in readers]) - written.at
    stage.check(
        "no reader came in before that, and now all four read together",
        after > 0 and not shop.all("left"),
        f"{after * 1000:.1f} ms later",
    )
    lease = await stage.client.get_read_write_lock("prices").write_lock().try_acquire()
    stage.check("another writer stays out", lease is None, f"it got {lease}")
    shop.tell("leave")
    for each in readers:
        each.tell("end second turn")
