"""What a task does in a universe: it acquires, works, re-enters, extends and releases."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import AbstractContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    Leadership,
    Lease,
    LeaseLostError,
    QuorumError,
)
from tests.lifecycle.actors import Order
from tests.lifecycle.subjects import PERMITS
from tests.simulation.oracle import LONGEST_LEASE, Grip

if TYPE_CHECKING:
    from tests.simulation.process import Process

#: Most suspensions before a lap is cancelled.
_MOST_SUSPENSIONS = 30


class Worker:
    """One task of a process.

    Args:
        process: What it is part of.
        name: Its own.
        chance: Decides what it does.
    """

    def __init__(self, process: Process, name: str, chance: random.Random) -> None:
        self._process = process
        self._universe = process.universe
        self._subject = process.universe.kind.subject
        self.name = name
        self._chance = chance
        self._deepest = 1
        self.laps = 0

    async def run(self) -> None:
        """Do all laps."""
        plan = self._universe.plan
        for _ in range(plan.laps):
            await asyncio.sleep(self._short())
            cut = None
            if self._chance.random() < plan.cancels:
                step, answered = self._chance.randint(1, _MOST_SUSPENSIONS), self._chance.random()
                cut = step, answered < 0.5
            order = Order(self._lap, cut)
            task = asyncio.current_task()
            assert task is not None
            passed = await order.carry_out(task)
            self._judge(order)
            assert passed is None or order.thrown, f"{self.name} was cancelled by nobody"
            self.laps += 1

    async def tidy(self) -> None:
        """Acquire it once when all others have ended, and see that all of it is free."""
        for target in self._process.targets.values():
            if self._subject.is_semaphore:
                available = await target.available()
                assert available == PERMITS, f"{available} of {PERMITS} permits are available"
            lease = await target.try_acquire(timeout=self._universe.plan.lease_time)
            assert lease is not None, "nobody holds it, and it is not to be had"
            await lease.release()

    def _short(self) -> float:
        """Return how long something takes: a part of a lease, now and then more than one."""
        lease_time = self._universe.plan.lease_time
        scale = self._chance.choice([0.0, 0.001, 0.05, 0.3, 1.2])
        return lease_time * scale * self._chance.random()

    def _judge(self, order: Order) -> None:
        """Fail unless a lap ended as it may."""
        error, universe = order.error, self._universe
        if error is None:
            assert not order.thrown, "a cancellation was swallowed"
            return
        universe.note(self.name, "got", type(error).__name__, str(error)[:60])
        if order.thrown and isinstance(error, asyncio.CancelledError):
            return
        if isinstance(error, AcquireTimeoutError) and self._has_timeout:
            return
        if isinstance(error, LeaseLostError) and (self._own_end or not universe.plan.calm):
            return
        if isinstance(error, ConnectionLostError) and (self._has_timeout or universe.plan.faults):
            return
        if isinstance(error, QuorumError):
            return
        raise error

    # One lap.

    async def _lap(self) -> None:
        self._has_timeout = self._own_end = False
        universe, chance, subject = self._universe, self._chance, self._subject
        side = chance.choice(subject.sides)
        target = self._process.targets[side]
        lease_time, units = None, chance.randint(1, subject.most_units)
        if subject.takes_lease_time and chance.random() < 0.25:
            self._own_end = True
            lease_time = universe.plan.lease_time * chance.choice([0.3, 1.0, 3.0])
        way = chance.choice(["block", "block", "hold", "acquire", "try", "try once"])
        self._has_timeout = way.startswith("try")
        universe.note(self.name, way, side, lease_time, units)
        if way == "block":
            await self._in_block(target, side, 1)
        elif way == "hold":
            await self._in_block(subject.hold(target, lease_time, units), side, units)
        elif way == "acquire":
            began, floor = self._now(), universe.oracle.floor()
            with self._waiting():
                lease = await subject.acquire(target, lease_time, units, once=False)
            assert lease is not None
            await self._with_lease(lease, side, units, began, floor)
        else:
            await self._tried(target, way, lease_time, side)

    async def _tried(self, target: Any, way: str, lease_time: float | None, side: str) -> None:
        began, floor = self._now(), self._universe.oracle.floor()
        timeout = 0.0 if way == "try once" else self._short()
        options = self._subject.options(lease_time, 1)
        lease = await target.try_acquire(timeout=timeout, **options)
        if lease is None:
            self._universe.note(self.name, "found it busy")
        else:
            await self._with_lease(lease, side, 1, began, floor)

    async def _in_block(self, block: Any, side: str, units: int) -> None:
        began, floor = self._now(), self._universe.oracle.floor()
        async with AsyncExitStack() as stack:
            with self._waiting():
                lease = await stack.enter_async_context(block)
            self._got(lease, side, units, began, floor)
            await self._body(lease, side)

    def _waiting(self) -> AbstractContextManager[None]:
        return self._universe.oracle.waits(self.name, self._process.host)

    async def _with_lease(
        self, lease: Lease, side: str, units: int, began: float, floor: int
    ) -> None:
        self._got(lease, side, units, began, floor)
        if self._universe.reentrant and self._chance.random() < 0.2:
            lease = await self._released_beside_reentry(lease, side)
        try:
            await self._body(lease, side)
        finally:
            await self._released(lease.release())

    async def _released_beside_reentry(self, outer: Lease, side: str) -> Lease:
        """Acquire it again while another task releases it; return the new lease."""
        seconds = self._universe.plan.lease_time * self._chance.choice([0.5, 2.0, LONGEST_LEASE])
        began, floor = self._now(), self._universe.oracle.floor()
        self._own_end = True
        self._universe.oracle.shortened()
        releasing = asyncio.create_task(outer.release())
        # Its error, if there is one, is that of the re-entry too.
        releasing.add_done_callback(lambda done: done.cancelled() or done.exception())
        again: Lease = await self._process.targets[side].acquire(lease_time=seconds)
        self._got(again, side, 1, began, floor)
        return again

    async def _released(self, release: Coroutine[Any, Any, None]) -> None:
        await release
        self._universe.note(self.name, "released")

    def _got(self, lease: Lease, side: str, units: int, began: float, floor: int) -> None:
        self._universe.note(self.name, "has it", f"{lease.remaining:.6f} s")
        self._universe.grants += 1
        grip = Grip(lease, self._process.host, self.name, side, units, began)
        self._universe.oracle.granted(grip, floor)

    async def _body(self, lease: Lease, side: str) -> None:
        chance, subject = self._chance, self._subject
        await asyncio.sleep(self._short())
        act = chance.random()
        if act < 0.2 and self._universe.reentrant:
            target = self._process.targets[side]
            await self._in_block(target, side, 1)
        elif act < 0.35 and subject.takes_lease_time:
            seconds = self._universe.plan.lease_time * chance.choice([0.2, 1.0, 3.0])
            self._universe.note(self.name, "extends", f"{seconds:.3f} s")
            self._own_end = True
            self._universe.oracle.shortened()
            await lease.extend(seconds)
            await asyncio.sleep(self._short())
        elif act < 0.8 and isinstance(lease, Leadership):
            await self._publish(lease)

    async def _publish(self, leadership: Leadership) -> None:
        """Publish some values, and see that who looks finds the last of them, or a later term."""
        election = self._process.clients[0].get_election("k")
        for number in range(self._chance.randint(1, 3)):
            value = f"{self.name} {number}"
            self._universe.note(self.name, "publishes", value)
            await leadership.proclaim(value)
            await asyncio.sleep(self._short())
            began, floor = self._now(), self._universe.oracle.floor()
            found = await election.leader()
            self._universe.note(self.name, "sees", found)
            token = found.token if found else 0
            if self._universe.oracle.keeps(leadership, began):
                assert token == leadership.token, f"{self.name} leads, and {found} is seen"
            assert not found or token >= floor, f"after the term {floor} there is {found}"
            said = token != leadership.token or (found and found.text == value)
            assert said, f"{value!r} was published, and is {found}"

    def _now(self) -> float:
        return self._universe.loop.time()
