"""Turns on a few connections: renewals come first."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import final

from redisson_py._loop import Future, new_future, wake
from redisson_py._time import now


@final
class Turns:
    """Lets a limited number of requests through at a time, in their order, and urgent ones first.

    Renewals are urgent: behind a thousand others that wait, they would come when their leases have
    ended. They are few, as one is for many holds.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._urgent: deque[Future[None]] = deque()
        self._others: deque[Future[None]] = deque()

    @property
    def free(self) -> bool:
        """Whether nobody has to wait."""
        return self._free > 0

    async def take(self, deadline: float, *, urgent: bool = False) -> None:
        """Wait for a turn, which must be given back with `end`. If cancelled, there is none.

        Raises:
            TimeoutError: There was none by the deadline.
        """
        if self._free:
            self._free -= 1
            return
        queue = self._urgent if urgent else self._others
        turn = new_future()
        queue.append(turn)
        try:
            async with asyncio.timeout(deadline - now()):
                await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.end()
            else:
                # It is gone already if a turn ended in between.
                with suppress(ValueError):
                    queue.remove(turn)
            raise

    def end(self) -> None:
        """Give a turn back: to the next that waits, if any."""
        for queue in (self._urgent, self._others):
            while queue:
                if wake(queue.popleft()):
                    return
        self._free += 1
