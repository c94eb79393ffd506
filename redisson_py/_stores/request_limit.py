"""A limit of the requests at a time: renewals come first."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import final

from redisson_py._loop import Future, new_future, wake
from redisson_py._time import now


@final
class RequestLimit:
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
        """Wait to be admitted; `end` must follow. One that is cancelled is not admitted.

        Raises:
            TimeoutError: It was not admitted by the deadline.
        """
        if self._free:
            self._free -= 1
            return
        queue = self._urgent if urgent else self._others
        admitted = new_future()
        queue.append(admitted)
        try:
            async with asyncio.timeout(deadline - now()):
                await admitted
        except BaseException:
            if admitted.done() and not admitted.cancelled():
                self.end()
            else:
                # It is gone already if a request ended in between.
                with suppress(ValueError):
                    queue.remove(admitted)
            raise

    def end(self) -> None:
        """End a request: admit the next that waits, if any."""
        for queue in (self._urgent, self._others):
            while queue:
                if wake(queue.popleft()):
                    return
        self._free += 1
