"""Two clients behind proxies, tasks of each, and what the state machine believes of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    Lease,
    LeaseLostError,
    NotHeldError,
    Redisson,
    RedissonError,
)
from redisson_py.testing import FaultProxy
from tests.lifecycle.actors import Actor, Block, Cut, Order, Work
from tests.lifecycle.subjects import Subject
from tests.support import until

#: Options of the clients. The first never renews during an example, so that nothing of it is
#: lost without a cause; the second learns from its watchdog, and its bodies run on.
CLIENTS: tuple[dict[str, Any], ...] = ({"lease_time": 30}, {"lease_time": 3, "on_lost": "raise"})
ACTORS = (0, 0, 0, 1, 1)

#: Seconds within which everything must come that has been made possible. Below the safety poll,
#: which would hide a waiter that nobody wakes.
SOON = 4.0


@dataclass(eq=False)
class Grip:
    """One acquisition, as the machine knows it.

    Attributes:
        task: The task that acquired it.
        client: The number of its client.
        side: Of a read-write lock.
        units: How much it takes.
        block: The block that it belongs to.
        own_end: It may end by itself.
        severed: The server was told to forget it, behind its back or by force.
        may_go: Somebody was told to release it.
        told: Its loss has been told to whoever released it.
        over: It is known to have ended.
    """

    lease: Lease
    task: asyncio.Task[None]
    client: int
    side: str
    units: int
    block: Block | None
    own_end: bool
    severed: bool = False
    may_go: bool = False
    told: bool = False
    over: bool = False

    @property
    def held(self) -> bool:
        return self.lease.remaining > 0

    @property
    def lost(self) -> bool:
        return self.lease.lost

    def __repr__(self) -> str:
        state = "held" if self.held else "lost" if self.lost else "released"
        return f"<{state} by {self.task.get_name()} {self.side} of client {self.client}>"


@dataclass(eq=False)
class Wait:
    """An acquisition under way.

    Attributes:
        once: It does not wait.
        untold: Something ended without a message since it waits, so it may look late.
    """

    actor: Actor
    order: Order
    side: str
    lease_time: float | None
    units: int
    block: Block | None = None
    once: bool = False
    untold: bool = False

    def granted(self, lease: Lease) -> Grip:
        """Return what it got."""
        return Grip(
            lease=lease,
            task=self.actor.task,
            client=self.actor.client,
            side=self.side,
            units=self.units,
            block=self.block,
            own_end=self.lease_time is not None,
        )


@dataclass
class Straggler:
    """Records a command whose reply is lost, so that its bytes can arrive once more, late."""

    commands: list[bytes] = field(default_factory=list)

    def __call__(self, command: bytes) -> bool:
        if b"EVALSHA" not in command[:40]:
            return False
        self.commands.append(command)
        return True


class World:
    """Where one example plays.

    Attributes:
        grips: Every acquisition so far.
        waits: Acquisitions under way.
        played: What was done.
        findings: What the event loop was told of that nobody else saw.
    """

    def __init__(self, subject: Subject, url: str) -> None:
        self.subject = subject
        self.url = url
        self.grips: list[Grip] = []
        self.played: list[str] = []
        self.waits: list[Wait] = []
        self.findings: list[str] = []
        self.late = Straggler()
        self.clients: list[Redisson] = []
        self.links: list[FaultProxy] = []
        self.actors: list[Actor] = []
        self.ended: list[Actor] = []
        self.severing = False
        self.racing = False
        self.closed: set[int] = set()
        self._stack = AsyncExitStack()
        self._dropped: list[Exception] = []

    async def open(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._unseen)
        enter = self._stack.enter_async_context
        self.redis: Redis = await enter(Redis.from_url(self.url))
        await self.redis.flushdb()
        self.observer = await enter(Redisson.from_url(self.url))
        for options in CLIENTS:
            self.links.append(await enter(FaultProxy.in_front_of(self.url)))
            self.clients.append(Redisson.from_url(self.links[-1].url, **options))
        await self.subject.prepare(self.observer)
        self.targets = [
            {side: self.subject.make(client, side) for side in self.subject.sides}
            for client in self.clients
        ]
        self.shared = [
            {side: self.subject.hold(target, None, 1) for side, target in targets.items()}
            for targets in self.targets
        ]
        self.actors = [Actor(f"actor {n}", client) for n, client in enumerate(ACTORS)]

    async def close(self) -> None:
        """End everything, also after a failure."""
        for link in self.links:
            link.pass_through()
        for client in self.clients:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.aclose(), 15)
        tasks = [actor.task for actor in self.actors + self.ended]
        for actor in self.actors:
            actor.kill()
        await asyncio.wait(tasks, timeout=SOON)
        await self._stack.aclose()

    def _unseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "asyncgen" in context and isinstance(error, RuntimeError | RedissonError):
            # Out of a generator that was dropped: nobody else can be told.
            self._dropped.append(error)
            return
        self.findings.append(f"{context.get('message')}: {error!r}")

    # What came of it.

    def collect(self) -> None:
        """Note what became of acquisitions that have ended, and of leases."""
        for wait in list(self.waits):
            if not wait.order.finished:
                continue
            self.waits.remove(wait)
            lease = wait.order.value
            if isinstance(lease, Lease):
                assert not wait.order.thrown, "a cancellation was swallowed"
                grip = wait.granted(lease)
                # A hold that is passed on takes with it what befell it.
                owner = [each for each in self.grips if each.lease.owner == lease.owner]
                grip.severed = self.severing or any(each.severed for each in owner)
                self.grips.append(grip)
                self.note("->", grip)
            else:
                self._check_refusal(wait)
        for grip in self.grips:
            if grip.block is not None and grip.block.left:
                self._allow(grip, hollow=grip.over and not grip.lost)
                grip.told |= grip.block.ended
            if grip.held or grip.over:
                continue
            grip.over = True
            for wait in self.waits:
                # The end of a lease is no message to other clients; a release is one to all.
                if grip.lost and wait.actor.client != grip.client:
                    wait.untold = True
                elif not grip.lost and not grip.severed:
                    wait.untold = False

    def _check_refusal(self, wait: Wait) -> None:
        error = wait.order.error
        mine = [grip for grip in self.grips if grip.task is wait.actor.task]
        if error is None or wait.order.thrown or type(error) is RuntimeError:
            return  # busy, for a try; cancelled; or not reentrant, an upgrade, a block in use
        if wait.actor.client in self.closed:
            assert isinstance(error, RedissonError | asyncio.CancelledError), repr(error)
        elif isinstance(error, asyncio.CancelledError):
            self._check_strike(wait.actor)
        else:
            assert not isinstance(error, AcquireTimeoutError), "timed out without a timeout"
            assert isinstance(error, RedissonError), f"an acquisition ended with {error!r}"
            short = wait.lease_time is not None and wait.lease_time < 1
            gone = any(grip.lost or grip.severed for grip in mine)
            once = wait.once and isinstance(error, ConnectionLostError)
            assert short or gone or once, f"an acquisition failed: {error!r}"

    # Who is there.

    def pending(self, client: int) -> list[Wait]:
        """Return the acquisitions of a client that have not ended."""
        waits = [wait for wait in self.waits if wait.actor.client == client]
        return [wait for wait in waits if not wait.order.finished]

    def idle(self) -> list[Actor]:
        """Return the actors that can take an order."""
        return [actor for actor in self.actors if actor.idle]

    def held(self) -> list[Grip]:
        """Return what its holders believe to hold."""
        return [grip for grip in self.grips if grip.held]

    def ending(self) -> list[Grip]:
        """Return what is held and will soon end by itself."""
        return [grip for grip in self.held() if grip.own_end and grip.lease.remaining < 1]

    def open_blocks(self) -> list[Grip]:
        """Return the acquisitions whose blocks nobody has left."""
        return [grip for grip in self.grips if grip.block is not None and not grip.block.left]

    def entered_by(self, grip: Grip) -> Actor | None:
        """Return the actor whose block this still is."""
        return next((actor for actor in self.actors if grip.block in actor.blocks), None)

    def _is_sure(self, grip: Grip) -> bool:
        """Whether an operation on it must succeed."""
        return grip.held and not (grip.severed or grip.own_end or self.racing)

    def is_clear(self, grip: Grip, by: Actor) -> bool:
        """Whether it can be known which block `by` leaves.

        An `AsyncExitStack` calls the methods of the class with the thing itself: nothing then
        tells the blocks of one task apart but their order, and those of several by the task.
        """
        if grip.block is None or grip.block.over != "bare" or not grip.block.stacked:
            return True
        others = [
            each
            for each in self.open_blocks()
            if each.block is not None
            and each.block.over == "bare"
            and (each.client, each.side) == (grip.client, grip.side)
        ]
        if by.task is grip.task:
            return [each for each in others if each.task is by.task][-1] is grip
        return others == [grip]

    # Steps.

    def begin_step(self, name: str, actor: Actor) -> None:
        """Note what is played, for the report of a failure."""
        self.played.append(f"{name} ({actor} of client {actor.client})")

    def note(self, *details: object) -> None:
        """Add details to the step."""
        if self.played:
            self.played[-1] += f" {' '.join(map(str, details))}"

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
        over: str,
        stack: bool,
        mishap: Mishap = None,
    ) -> None:
        """Enter a block over the "bare" thing, its "hold()", a "shared" hold(), or a "lease"."""
        target = self.targets[actor.client][side]
        subject = self.subject
        if over != "hold" and over != "lease":
            lease_time, units = None, 1
        if over == "hold":
            manager = subject.hold(target, lease_time, units)
        else:
            manager = self.shared[actor.client][side] if over == "shared" else target
        block = Block(manager, over, stack=stack)
        self.note(over, "stack" if stack else "generator")

        async def work() -> Lease | None:
            if over == "lease":
                lease = await subject.acquire(target, lease_time, units, once=False)
                assert lease is not None
                block.manager = lease
            lease = await block.enter()
            actor.blocks.append(block)
            return lease

        await self._acquire(Wait(actor, Order(work), side, lease_time, units, block), work, mishap)

    async def _acquire(self, wait: Wait, work: Work, mishap: Mishap) -> None:
        self.note(wait.side, wait.lease_time, wait.units, "once" * wait.once)
        self.waits.append(wait)
        wait.order = self._begin(wait.actor, work, mishap)
        client = self.clients[wait.actor.client]

        def settled() -> bool:
            waiting = len(self.pending(wait.actor.client))
            return wait.order.finished or client.statistics().waiters >= waiting

        # A multi-lock counts its waiters as it likes while it asks for its members.
        await until(settled, SOON * 2)
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
        hollow = not grip.held and not grip.lost
        sure = self._is_sure(grip)
        before = self.held()
        self._allow(grip, hollow=hollow)
        order = await self._finished(by, lambda: block.leave(how), mishap)
        error = order.error
        grip.told = True
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
        if hollow:
            gone = [each for each in before if not each.held and not each.lost]
            assert len(gone) <= 1, f"leaving a block whose lease was released took {gone}"

    async def drop(self, grip: Grip) -> None:
        """Forget a generator that has not ended; the event loop closes it."""
        block = grip.block
        assert block is not None
        self.note(grip)
        own = self.entered_by(grip)
        if own is not None:
            own.blocks.remove(block)
        self._allow(grip, hollow=not grip.held and not grip.lost)
        block.drop()
        grip.told = True
        self._dropped.clear()
        await until(lambda: not grip.held or self._dropped, SOON)
        if any(type(error) is RuntimeError for error in self._dropped):
            grip.block = None

    async def release_lease(self, grip: Grip, by: Actor, mishap: Mishap = None) -> None:
        """Release by the handle: also late, and also twice."""
        held, lost, told = grip.held, grip.lost, grip.told
        sure = self._is_sure(grip)
        self.note(grip)
        grip.may_go = True
        order = await self._finished(by, grip.lease.release, mishap)
        grip.told = True
        if order.thrown:
            return
        if sure:
            assert order.error is None, f"a valid lease was released with {order.error!r}"
        elif not held and not self.racing:
            assert isinstance(order.error, RedissonError), f"{grip} was released once more"
            if not lost or told:
                assert isinstance(order.error, RedissonError | NotHeldError)

    async def release_own(self, actor: Actor, side: str, mishap: Mishap = None) -> None:
        """Call `release()` of the thing itself."""
        target = self.targets[actor.client][side]
        mine = [grip for grip in self.held() if grip.side == side and grip.task is actor.task]
        candidates = mine[-1:]
        if self.subject.is_semaphore:
            plain = [grip for grip in self.held() if grip.client == actor.client]
            candidates = [grip for grip in plain if grip.block is None]
        for grip in candidates:
            grip.may_go = True
        mine = [grip for grip in self.grips if grip.task is actor.task and grip.side == side]
        left = [grip for grip in mine if grip.held or (grip.lost and not grip.told)]
        order = await self._finished(actor, target.release, mishap)
        if isinstance(order.error, LeaseLostError):
            for grip in [grip for grip in left if grip.lost][-1:]:
                grip.told = True

    async def extend(self, grip: Grip, by: Actor, seconds: float, mishap: Mishap = None) -> None:
        sure = self._is_sure(grip)
        self.note(grip, seconds)
        grip.own_end = True
        order = await self._finished(by, lambda: grip.lease.extend(seconds), mishap)
        if sure and not order.thrown:
            assert order.error is None, f"a valid lease was extended with {order.error!r}"

    async def let_end(self) -> None:
        """Wait until every short lease has ended."""
        await until(lambda: not self.ending(), SOON)

    async def force_release(self, by: Actor, side: str) -> None:
        target = self.targets[by.client][side]
        gone = [grip for grip in self.held() if grip.side == side]
        async with self._sever(gone):
            order = await self._finished(by, target.force_release)
        assert order.error is None, f"force_release raised {order.error!r}"
        believers = [grip for grip in gone if grip.client == by.client and grip.held]
        assert not believers, f"freed by force, and believed in: {believers}"

    async def delete(self) -> None:
        """Delete the key on the server."""
        for wait in self.waits:
            wait.untold = True
        async with self._sever(self.held()):
            await self.subject.delete(self.redis, self.observer)

    async def cancel_wait(self, wait: Wait | None) -> None:
        assert wait is not None
        wait.order.cancel()
        await until(lambda: wait.order.finished, SOON)

    async def cancel_body(self, actor: Actor) -> None:
        """Cancel a task outside any operation: it leaves all its blocks."""
        for grip in self.grips:
            if grip.block in actor.blocks:
                self._allow(grip, hollow=not grip.held and not grip.lost)
                grip.told = True
        actor.cancel_body()
        await until(lambda: not actor.unwinding, SOON)

    async def cut(self, actor: Actor) -> None:
        """Break the connection of an actor's client."""
        self.links[actor.client].cut()

    async def end_task(self, actor: Actor) -> None:
        """End an actor's task; what it has stays, and a new task takes its place."""
        actor.end()
        await until(actor.task.done, SOON)
        self.ended.append(actor)
        place = self.actors.index(actor)
        self.actors[place] = Actor(f"actor {place} after {len(self.ended)}", actor.client)

    async def straggle(self) -> None:
        """Have the server execute commands of broken connections, which come late."""
        late, self.late.commands = self.late.commands, []
        parts = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        for command in late:
            writer.write(command)
            assert await reader.read(65536)
        writer.close()
        await writer.wait_closed()

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
            if grip.held or (grip.lost and not grip.told):
                await self.release_lease(grip, by)

    async def close_all(self) -> None:
        """Close the clients, whatever is held and whoever waits."""
        for number, client in enumerate(self.clients):
            self._calm(number)
            await client.ping()
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

    # How.

    @contextlib.asynccontextmanager
    async def _sever(self, grips: list[Grip]) -> AsyncIterator[None]:
        """Excuse what is held now, and what is granted meanwhile."""
        self.severing = True
        for grip in grips:
            grip.severed = True
        yield
        for client in self.clients:
            await client.ping()
        self.collect()
        self.severing = False

    def _begin(self, actor: Actor, work: Work, mishap: Mishap) -> Order:
        self.note("by", actor, "mishap", mishap)
        if mishap == "lost reply":
            self.links[actor.client].cut_after_execution(self.late)
        return actor.begin(work, mishap if isinstance(mishap, tuple) else None)

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
            self._check_strike(actor)
            order.thrown = True
        return order

    def _check_strike(self, actor: Actor) -> None:
        mine = [grip for grip in self.grips if grip.task is actor.task and grip.block]
        assert any(grip.lost for grip in mine), f"{actor} was cancelled by nobody"

    def _calm(self, client: int) -> None:
        self.links[client].pass_through()

    def _allow(self, grip: Grip, *, hollow: bool) -> None:
        """Let the end of a block release its own acquisition, or what its task took since."""
        grip.may_go = True
        for other in self.grips:
            if hollow and other.task is grip.task and other.block is None:
                other.may_go = True


#: What goes wrong in an operation: nothing, a cancellation, or a reply that is lost.
Mishap = None | Cut | str
