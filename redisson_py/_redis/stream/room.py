"""Callers that wait until a connection takes more commands, first come, first served."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from redisson_py._loop import Future, call_at, fail, new_future, running_loop, wake
from redisson_py.errors import ConnectionLostError


class Room:
    """Wakes only as many callers as there is room for.

    Args:
        spare: Returns how many commands may be sent now.
        too_late: Returns the error of a caller whose deadline passed.
    """

    def __init__(
        self, spare: Callable[[], int], too_late: Callable[[], ConnectionLostError]
    ) -> None:
        self._spare = spare
        self._too_late = too_late
        self.waiting: OrderedDict[Future[None], None] = OrderedDict()
        #: Callers that were let in and have not run yet.
        self._let_in: set[Future[None]] = set()
        #: Whether there are callers that wait or were let in: nobody may overtake them.
        self.crowded = False
        #: How often a caller was woken, for tests.
        self.wakes = 0

    async def wait(self, deadline: float) -> None:
        """Return when one more command may be sent.

        Raises:
            ConnectionLostError: There was no room before the deadline, in loop time.
        """
        if not self.is_full:
            return
        future: Future[None] = new_future()
        self.waiting[future] = None
        self.crowded = True
        timer = call_at(deadline, lambda: self._give_up(future))
        try:
            await future
        finally:
            timer.cancel()
            self.waiting.pop(future, None)
            self._let_in.discard(future)
            self.crowded = bool(self.waiting or self._let_in)
            if self.waiting and not self._let_in:
                # Those that were let in may send nothing, or be cancelled: then others may enter.
                running_loop().call_soon(self.give)

    @property
    def is_full(self) -> bool:
        """Whether a new caller has to wait: all room there is belongs to others."""
        return bool(self.waiting) or self._spare() <= len(self._let_in)

    def _give_up(self, future: Future[None]) -> None:
        fail(future, self._too_late())

    def give(self) -> None:
        """Let in as many callers as there is room for."""
        spare = self._spare() - len(self._let_in)
        while spare > 0 and self.waiting:
            future, _ = self.waiting.popitem(last=False)
            if wake(future):
                self._let_in.add(future)
                self.wakes += 1
                spare -= 1
