"""The hosts of a simulation: each has its own ready callbacks and timers, as a process has."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Iterable
from contextvars import Context, ContextVar, copy_context

#: The host that runs the current code; None outside of all.
HOST: ContextVar[Host | None] = ContextVar("host", default=None)

#: A timer: its moment, the draw that orders timers of one moment, a number, and its handle.
Timer = tuple[float, float, int, asyncio.TimerHandle]


class Host:
    """One process on a machine of its own.

    Attributes:
        context: The context in which everything of the host begins.
        ready: Callbacks that run in the next turn of its event loop, in order.
        timers: Its timers, a heap.
        free_at: When its current turn ends, and the next one may begin.
        slowness: How long its turns take, on average, in seconds.
        crashed: It has died: nothing of it runs any more.
        paused: It is stopped (SIGSTOP): it goes on later, and time passes meanwhile.
    """

    def __init__(self, name: str, slowness: float = 0.0) -> None:
        self.name = name
        self.slowness = slowness
        self.ready: deque[asyncio.Handle] = deque()
        self.timers: list[Timer] = []
        self.free_at = 0.0
        self.crashed = False
        self.paused = False
        self.context: Context = copy_context()
        self.context.run(HOST.set, self)
        #: What a crash left: destroyed at once, suspended code would run its `finally`.
        self._remains: list[object] = []

    def __repr__(self) -> str:
        return self.name

    @property
    def runs(self) -> bool:
        """Whether its callbacks run now."""
        return not (self.crashed or self.paused)

    def due_at(self, present: float) -> float:
        """Return when its next turn may begin; infinity while there is nothing to do."""
        # A host that has crashed has neither callbacks nor timers.
        if self.paused:
            return math.inf
        free_at = self.free_at
        if self.ready:
            return max(present, free_at)
        timers = self.timers
        while timers:
            when, _, _, handle = timers[0]
            if not handle._cancelled:
                return max(when, free_at)
            heapq.heappop(timers)
        return math.inf

    def collect_due(self, present: float) -> None:
        """Make the timers that are due callbacks of the turn that begins."""
        timers = self.timers
        while timers and timers[0][0] <= present:
            handle = heapq.heappop(timers)[3]
            if not handle._cancelled:
                self.ready.append(handle)

    def crash(self, tasks: Iterable[object] = ()) -> None:
        """Die, with these tasks: no callback runs any more, no `finally` either."""
        self.crashed = True
        self._remains = [*tasks, *self.ready, *self.timers]
        self.ready.clear()
        self.timers.clear()

    def bury(self) -> None:
        """Forget what a crash left, once nothing can see what its suspended code does."""
        self._remains.clear()
