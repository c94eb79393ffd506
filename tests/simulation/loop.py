"""An event loop whose time, and the order of what happens in it, are a seed's.

It has no selector and no sockets. Time stands still while callbacks run, and jumps to the next
moment at which a host or the network has something to do. One loop runs all hosts; each of them
has its own order of callbacks, which stays that of asyncio: first in, first out.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import random
import weakref
from asyncio import base_events
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol, TypeVarTuple

from tests.simulation.hosts import HOST, Host

Ts = TypeVarTuple("Ts")

#: Loop time at which a simulation begins, in seconds.
BEGIN = 1000.0

#: The share of turns that take far longer than usual, and how long: many times the usual.
_SLOW_SHARE, _SLOW = 0.01, 200.0


#: Steps after which something must go round in circles: usual are a thousand.
_MOST_STEPS = 500_000


class StuckError(AssertionError):
    """Nothing is left to happen, and somebody still waits; or it never ends."""


class Connecting(Protocol):
    """Opens connections of a simulated network."""

    async def connect(
        self, protocol: asyncio.Protocol, host: str, port: int
    ) -> asyncio.Transport: ...


class SimulatedLoop(base_events.BaseEventLoop):
    """Runs hosts, and events outside of them, in an order and at a pace that a seed decides.

    Attributes:
        network: Opens connections.
        outside: The host of code that belongs to none: what sets the simulation up.
        hosts: All hosts.
        tasks: Every task that was made, in order, with its host.
        after_step: Called after every turn of a host and after every event.
        steps: How many there were.
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance
        self._now = BEGIN
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._number = itertools.count().__next__
        self.network: Connecting | None = None
        self.outside = Host("outside")
        self.hosts = [self.outside]
        self.tasks: list[tuple[Host, weakref.ref[asyncio.Task[Any]]]] = []
        self.after_step: Callable[[], object] | None = None
        self.steps = 0

    def add_host(self, name: str, slowness: float) -> Host:
        """Return a new host."""
        host = Host(name, slowness)
        self.hosts.append(host)
        return host

    def at(self, when: float, event: Callable[..., object], *args: Any) -> None:
        """Have something happen outside of all hosts, which they cannot delay."""
        heapq.heappush(self._events, (when, self._number(), event, args))

    def start_on(self, host: Host, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` as a task of a host."""
        return self.create_task(work, context=host.context.copy())

    def crash(self, host: Host) -> None:
        """Have a host die."""
        tasks = [reference() for where, reference in self.tasks if where is host]
        host.crash([task for task in tasks if task is not None and not task.done()])

    def forget(self) -> None:
        """Let go of what it ran: the package keeps futures of red locks, and these the loop."""
        self._events.clear()
        self.network = self.after_step = None
        self.set_exception_handler(None)

    def deliver(
        self, host: Host, context: Context, callback: Callable[..., object], *args: Any
    ) -> None:
        """Have a host run a callback as soon as it can, as for bytes that came in."""
        if not host.crashed:
            host.ready.append(asyncio.Handle(callback, args, self, context))

    # What asyncio asks of an event loop.

    def time(self) -> float:
        """Return the simulated time."""
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn of its host."""
        handle = asyncio.Handle(callback, args, self, context)
        host = (HOST.get() if context is None else context.get(HOST)) or self.outside
        if not host.crashed:
            host.ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Run a callback in the next turn of its host: there is one thread only."""
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback when its moment has come; the seed orders those of one moment."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        host = (HOST.get() if context is None else context.get(HOST)) or self.outside
        if not host.crashed:
            entry = (when, self._chance.random(), self._number(), handle)
            heapq.heappush(host.timers, entry)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run a callback after a delay."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is dropped when its moment comes."""

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> asyncio.Task[Any]:
        """Return a new task."""
        # Names of asyncio's own count all tasks of this process, of other simulations too.
        name = name or f"task {len(self.tasks)}"
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        host = (HOST.get() if context is None else context.get(HOST)) or self.outside
        self.tasks.append((host, weakref.ref(task)))
        return task

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any
    ) -> Any:
        """Open a connection of the simulated network."""
        assert self.network is not None
        protocol = protocol_factory()
        return await self.network.connect(protocol, host, port), protocol

    # Time.

    def _run_once(self) -> None:
        events, present = self._events, self._now
        when = events[0][0] if events else math.inf
        due: list[Host] = []
        for host in self.hosts:
            moment = host.due_at(present)
            if moment < when:
                when, due = moment, [host]
            elif moment == when < math.inf:
                due.append(host)
        if when == math.inf:
            raise StuckError("nothing is left to happen")
        if when > present:
            self._now = when
        if due and (len(due) > 1 or (events and events[0][0] <= when)):
            index = int(self._chance.random() * (len(due) + bool(events and events[0][0] <= when)))
            due = due[index : index + 1]
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise StuckError(f"it goes on and on, since {self._now - BEGIN:.1f} s")
        if due:
            self._iterate(due[0])
        else:
            _, _, event, args = heapq.heappop(events)
            event(*args)
        if self.after_step is not None:
            self.after_step()

    def _iterate(self, host: Host) -> None:
        host.collect_due(self._now)
        ready = host.ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
            if host.crashed or host.paused:
                break
        if host.slowness:
            draw = self._chance.random()
            factor = _SLOW if draw < _SLOW_SHARE else 1.0
            host.free_at = self._now + draw * factor * host.slowness
