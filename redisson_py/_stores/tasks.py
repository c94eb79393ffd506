"""Work in the background that an event loop does not lose when it ends, and cancels every task."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from typing import Any

from redisson_py._loop import Task, end_task, start_task, stop_task, wait_for_all

Work = Callable[[], Coroutine[Any, Any, None]]


class Tasks:
    """The tasks of one client, with the context variables of where it was made.

    Args:
        name: Their name.

    Attributes:
        when_idle: Called each time that nothing is under way any more, if it is set.
    """

    def __init__(self, name: str) -> None:
        self.when_idle: Callable[[], None] | None = None
        self._name = name
        self._running: set[Task] = set()
        self._stopped = False
        self._made_in = copy_context()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Task]:
        return iter(self._running)

    def start(self, work: Work) -> None:
        """Start some work. It may begin at once: some loops start their tasks eagerly."""
        began = False

        async def run() -> None:
            nonlocal began
            began = True
            await work()

        def ended(task: Task) -> None:
            if task not in self._running:
                # It was left behind.
                return
            self._running.discard(task)
            if not (began or self._stopped):
                # A task that is cancelled before its first step does nothing at all.
                self.start(work)
            elif not self._running and self.when_idle is not None:
                self.when_idle()

        task = start_task(run(), self._name, self._made_in)
        self._running.add(task)
        task.add_done_callback(ended)

    async def finish(self, seconds: float, time: Callable[[], float]) -> None:
        """Wait until everything under way has ended, for at most some seconds."""
        until = time() + seconds
        # One that an ending event loop has cancelled goes on as another task.
        while self._running and (left := until - time()) > 0:
            await wait_for_all(list(self._running), left)

    async def stop(self) -> None:
        """Cancel everything, and wait for its end."""
        self._stopped = True
        while self._running:
            await stop_task(next(iter(self._running)))

    def leave_behind(self) -> None:
        """End everything at once: the event loop was closed, or ends now."""
        self._stopped, self.when_idle = True, None
        for task in list(self._running):
            end_task(task)
        self._running.clear()

    def reset(self) -> None:
        """Begin again, in another event loop or another life of the client."""
        self._stopped = False
