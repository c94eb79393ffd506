"""The steps of the state machine: what tasks do, and the expected outcome of each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from redisson_py import Lease, LeaseLostError, NotHeldError, RedissonError, _time
from tests.lifecycle.actors import Actor, Block, Order, Work
from tests.lifecycle.records import Grip, Mishap, Wait
from tests.lifecycle.world import SOON, World
from tests.support.waiting import until


class Play(World):
    """The world, and the steps in it."""

    # Steps.

    async def acquire(
        self,
        actor: Actor,
        side: str,
        lease_time: float | None,
        units: int,
        *,
        once: bool = False,
        mishap: Mishap = None,
    ) -> None:
        target = self.targets[actor.client][side]
        subject = self.subject

        async def work() -> Lease | None:
            return await subject.acquire(target, lease_time, units, once=once)

        wait = Wait(actor, Order(work), side, lease_time, units, once=once)
        await self._acquire(wait, work, mishap)

    async def enter(
        self,
        actor: Actor,
        side: str,
        lease_time: float | None,
        units: int,
        *,
        entered: str,
        stack: bool,
        mishap: Mishap = None,
    ) -> None:
        """Enter a block over the "bare" thing, its "hold()", a "shared" hold(), or a "lease"."""
        target = self.targets[actor.client][side]
        subject = self.subject
        if entered != "hold" and entered != "lease":
            lease_time, units = None, 1
        if entered == "hold":
            manager = subject.hold(target, lease_time, units)
        else:
            manager = self.shared[actor.client][side] if entered == "shared" else target
        block = Block(manager, entered, stack=stack)
        self.note(entered, "stack" if stack else "generator")

        async def work() -> Lease | None:
            if entered == "lease":
                lease = await subject.acquire(target, lease_time, units, once=False)
                assert lease is not None
                block.manager = lease
            lease = await block.enter()
            actor.blocks.append(block)
            return lease

        await self._acquire(Wait(actor, Order(work), side, lease_time, units, block), work, mishap)

    async def _acquire(self, wait: Wait, work: Work, mishap: Mishap) -> None:
        self.note(wait.side, wait.lease_time, wait.units, "once" * wait.once)
        wait.raced = self.racing
        wait.refused = self.full
        self.waits.append(wait)
        if mishap == "refused":
            self.fill_memory()
        wait.order = self._begin(wait.actor, work, mishap)
        client = self.clients[wait.actor.client]

        def settled() -> bool:
            waiting = len(self.pending(wait.actor.client))
            return wait.order.finished or client.statistics().waiters >= waiting

        # The waiters of a multi-lock are not counted exactly while it asks for its members.
        await until(settled, SOON * 2)
        if mishap == "refused":
            self.free_memory()
        self._calm(wait.actor.client)

    async def leave(self, grip: Grip, by: Actor, how: str, mishap: Mishap = None) -> None:
        """Leave a block, in the task that entered it or in another."""
        block = grip.block
        assert block is not None
        own = self.entered_by(grip)
        here = own is by
        if own is not None:
            own.blocks.remove(block)
        self.note(grip, how)
        block.left = True
        hollow = self.is_hollow(grip)
        sure = self.is_sure(grip)
        before = self.held()
        # The step beside this one may be releasing it: then the block finds it gone.
        self.allow(grip, hollow=hollow or (self.racing and grip.may_go))
        order = await self._finished(by, lambda: block.leave(how), mishap)
        error = order.error
        grip.reported = True
        if error is None:
            assert how != "error", "the block swallowed the error of its body"
        elif order.thrown and isinstance(error, asyncio.CancelledError):
            pass
        elif type(error) is RuntimeError:
            assert not here, f"its own task could not leave a block: {error!r}"
            grip.block = None
        elif how == "error":
            assert isinstance(error, ZeroDivisionError), f"an error was masked by {error!r}"
        else:
            assert not sure or not here, f"a block whose lease was valid ended with {error!r}"
            assert isinstance(error, RedissonError), f"a block ended with {error!r}"
        if hollow and not self.racing:
            gone = [each for each in before if not each.held and not each.lost]
            assert len(gone) <= 1, f"leaving a block whose lease was released took {gone}"

    async def drop(self, grip: Grip) -> None:
        """Drop a generator that has not ended; the event loop closes it."""
        block = grip.block
        assert block is not None
        self.note(grip)
        own = self.entered_by(grip)
        if own is not None:
            own.blocks.remove(block)
        self.allow(grip, hollow=self.is_hollow(grip))
        block.drop()
        grip.reported = True
        self.dropped.clear()
        with contextlib.suppress(TimeoutError):
            await until(lambda: not grip.held or self.dropped, SOON)
        assert not grip.held or self.dropped, f"closed by the event loop, and still held: {grip}"
        # Nothing awaits its release, which could otherwise come after a later step.
        await self.surroundings.answered(self.clients[grip.client])
        if any(type(error) is RuntimeError for error in self.dropped):
            grip.block = None

    async def release_lease(self, grip: Grip, by: Actor, mishap: Mishap = None) -> None:
        """Release by the handle: also late, and also twice."""
        held, lost = grip.held, grip.lost
        # Over by the clock, and its timer is late: Redis may still have it, and then releases it.
        overdue = lost and grip.lease._state == "held"
        sure = self.is_sure(grip)
        self.note(grip)
        grip.may_go = True
        order = await self._finished(by, grip.lease.release, mishap)
        grip.reported = True
        if order.thrown:
            return
        if sure and not self.unwound(grip):
            assert order.error is None, f"a valid lease was released with {order.error!r}"
        elif not held and not self.racing and not (overdue and order.error is None):
            wanted = LeaseLostError | NotHeldError if lost else NotHeldError
            assert isinstance(order.error, wanted), f"{grip} released again: {order.error!r}"

    async def release_own(self, actor: Actor, side: str, mishap: Mishap = None) -> None:
        """Call `release()` of the thing itself."""
        # One that was granted just now may be the newest.
        self.collect()
        target = self.targets[actor.client][side]
        mine = [grip for grip in self.grips if grip.side == side and grip.task is actor.task]
        # Also one that is over by the clock, and whose timer is late.
        overdue = [grip for grip in mine if not grip.held and grip.lease._state == "held"]
        candidates = [grip for grip in mine if grip.held][-1:] + overdue
        if self.subject.is_semaphore:
            # Also one that the clock has ended a moment ago.
            plain = [grip for grip in self.grips if grip.client == actor.client]
            candidates = [grip for grip in plain if grip.block is None and not grip.reported]
        for grip in candidates:
            grip.may_go = True
        left = [grip for grip in mine if grip.held or (grip.lost and not grip.reported)]
        # What is acquired meanwhile is the newest, perhaps before it was recorded.
        coming = self.pending(actor.client) if self.subject.is_semaphore else []
        order = await self._finished(actor, target.release, mishap)
        for wait in coming:
            # It may have been granted and not have run since.
            wait.may_go = wait.block is None
        if isinstance(order.error, LeaseLostError):
            for grip in [grip for grip in left if grip.lost][-1:]:
                grip.reported = True

    async def extend(self, grip: Grip, by: Actor, seconds: float, mishap: Mishap = None) -> None:
        sure = self.is_sure(grip)
        self.note(grip, seconds)
        grip.own_end = True
        order = await self._finished(by, lambda: grip.lease.extend(seconds), mishap)
        error = order.error
        # A short one may be over before its answer is looked at.
        ended = seconds < 1 and isinstance(error, LeaseLostError) and error.reason == "ended"
        if sure and not order.thrown and not ended and not self.unwound(grip):
            assert error is None, f"a valid lease was extended with {error!r}"

    async def let_end(self) -> None:
        """Wait until every short lease has ended."""
        await until(lambda: not self.ending(), SOON)

    async def force_release(self, by: Actor, side: str) -> None:
        target = self.targets[by.client][side]
        gone = [grip for grip in self.not_ended() if grip.side == side]
        # A writer whose short lease ends first leaves its task's read behind.
        ending = self.ending()
        writes = any(grip.held and not grip.severed and grip not in ending for grip in gone)
        if side == "write" and gone:
            # What the writer reads goes with it.
            gone += [grip for grip in self.not_ended() if grip.side == "read"]
        spares = side == "read" and self.subject.spares_reads_of_writers
        if spares and any(g.side == "write" and not g.severed for g in self.held()):
            # As in Redisson: what the writer reads stays with it.
            gone = []
        # A waiter may have a part of it, and may pass that on.
        self.forced_at = _time.now()
        async with self._sever(gone):
            order = await self._finished(by, target.force_release)
        # It may have cancelled the body that called it.
        assert order.error is None or order.thrown, f"force_release raised {order.error!r}"
        if order.error is not None:
            # Then its client hears of what it ended with the next renewals.
            return
        # After a deletion a reader may hold it while a writer is not over: that one stays.
        sure = [grip for grip in gone if writes or grip.side == side]
        believers = [grip for grip in sure if grip.client == by.client and grip.held]
        # Whether a writer is there whom somebody else has freed by force, or not, is not known.
        unsure = side == "read" and any(each.side == "write" for each in self.held())
        assert unsure or not believers, f"freed by force ({side}), and believed in: {believers}"

    async def delete(self) -> None:
        """Delete the key on the server."""
        for wait in self.waits:
            wait.untold = True
            # It may have this key already, and wait for the other one.
            wait.severed = wait.severed or len(self.subject.keys) > 1
        async with self._sever(self.not_ended()):
            # Also those who wait for another key, or pass on what they have.
            self.severed_owners |= await self.subject.owners(self.redis, self.subject.keys[:1])
            await self.subject.delete(self.redis, self.observer)

    async def cancel_wait(self, wait: Wait | None) -> None:
        assert wait is not None
        # Beside another step, the actor may not have come to it.
        await until(lambda: wait.order.begun, SOON)
        wait.order.cancel()
        await until(lambda: wait.order.finished, SOON)

    async def cancel_body(self, actor: Actor) -> None:
        """Cancel a task outside any operation: it leaves all its blocks."""
        for grip in self.grips:
            if grip.block in actor.blocks:
                self.allow(grip, hollow=self.is_hollow(grip))
                grip.reported = True
        actor.cancel_body()
        await until(lambda: not actor.unwinding, SOON)

    async def cut(self, actor: Actor) -> None:
        """Break the connection of an actor's client."""
        self.links[actor.client].cut()

    async def end_task(self, actor: Actor) -> None:
        """End an actor's task; its holds stay, and a new task takes its place."""
        actor.end()
        await until(actor.task.done, SOON)
        self.ended.append(actor)
        index = self.actors.index(actor)
        self.actors[index] = Actor(f"actor {index} after {len(self.ended)}", actor.client)

    async def straggle(self) -> None:
        """Have the server execute late commands of broken connections."""
        late, self.late.commands = self.late.commands, []
        await self.surroundings.deliver(late)

    # Ends.

    async def leave_all(self) -> None:
        """Leave every block and release everything, each in its own task where it can."""
        self._calm(0)
        self._calm(1)
        for wait in self.waits:
            await self.cancel_wait(wait)
        # Some may have been granted just before.
        self.collect()
        for grip in reversed(self.grips):
            idle = self.idle()
            by = next((actor for actor in idle if actor.task is grip.task), idle[0])
            if grip.block is not None and not grip.block.left:
                await self.leave(grip, by, "end")
            if grip.held or (grip.lost and not grip.reported):
                await self.release_lease(grip, by)

    async def close_all(self) -> None:
        """Close the clients, with anything held and any waiters."""
        for number, client in enumerate(self.clients):
            self._calm(number)
            await self.surroundings.answered(client)
        self.closed |= set(range(len(self.clients)))
        await asyncio.wait_for(
            asyncio.gather(*(client.aclose() for client in self.clients)), 2 * SOON
        )
        await until(lambda: all(wait.order.finished for wait in self.waits), SOON)
        await until(lambda: all(actor.idle for actor in self.actors), SOON)
        self.collect()
        assert not self.held(), f"held by closed clients: {self.held()}"
        for grip in self.open_blocks():
            await self.leave(grip, self.actors[0], "end")

    # Helpers.

    @contextlib.asynccontextmanager
    async def _sever(self, grips: list[Grip]) -> AsyncIterator[None]:
        """Excuse what is held now, and what is granted meanwhile."""
        self.severing += 1
        # A release that is still under way finds nothing, although its caller was cancelled.
        released = [grip for grip in self.grips if grip.ended and not grip.lost]
        for grip in [*grips, *released]:
            grip.severed = True
        yield
        for client in self.clients:
            await self.surroundings.answered(client)
        self.collect()
        self.severing -= 1

    def _begin(self, actor: Actor, work: Work, mishap: Mishap) -> Order:
        self.note("by", actor, "mishap", mishap)
        if mishap == "lost reply":
            self.links[actor.client].cut_after_execution(self.late)
        return actor.begin(work, None if isinstance(mishap, str) else mishap)

    async def _finished(
        self, actor: Actor, work: Callable[[], Coroutine[Any, Any, Any]], mishap: Mishap = None
    ) -> Order:
        """Have an operation done that never waits for others."""
        order = self._begin(actor, work, mishap)
        await until(lambda: order.finished, SOON * 2)
        self._calm(actor.client)
        if order.error is None:
            assert not order.thrown, "a cancellation was swallowed"
        elif isinstance(order.error, asyncio.CancelledError) and not order.thrown:
            self.check_strike(actor)
            order.thrown = True
        return order

    def _calm(self, client: int) -> None:
        self.links[client].pass_through()
