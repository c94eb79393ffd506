"""Several short operations under way at once, without a task for each.

What sends a command and awaits its answer needs no task of its own: its first step is taken at
once, so that the command is sent, and it goes on as a callback whenever what it waits for is
done. So five servers are asked in the time of one, and whoever does not wait any longer,
because enough have answered or because it was cancelled, leaves the rest to come to their end.

What runs here may ask who the current task is before its first await only.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from redisson_py._loop import Cancelled, Future, Timer, call_later, new_future, running_loop, wake

T = TypeVar("T")


class Together(Generic[T]):
    """Operations that were begun together.

    Args:
        operations: What to begin, in this order.

    Attributes:
        results: What those returned that have come to their end, by their number.
        errors: What the others raised, likewise.
        left: How many have not come to their end.
        on_end: Called with the number of each that comes to its end from now on.
    """

    __slots__ = ("_asleep", "_enough", "_operations", "errors", "left", "on_end", "results")

    def __init__(self, operations: Iterable[Coroutine[Any, Any, T]]) -> None:
        self.results: dict[int, T] = {}
        self.errors: dict[int, BaseException] = {}
        self.left = 0
        self.on_end: Callable[[int], object] | None = None
        self._operations: list[_Operation[T]] = []
        self._asleep: Future[None] | None = None
        self._enough = 0
        for number, coroutine in enumerate(operations):
            operation = _Operation(coroutine, number, self)
            self._operations.append(operation)
            self.left += 1
            operation.step()

    async def wait(self, enough: int | None = None, grace: float = 0) -> None:
        """Wait until all have come to their end.

        With `enough`, once so many have returned, the others get `grace` more seconds. They
        are left alone then, and also if this is cancelled.
        """
        most = len(self._operations)
        self._enough = most if enough is None else min(enough, most)
        if self.left and len(self.results) < self._enough:
            self._asleep = new_future()
            await self._asleep
        if self.left and grace:
            self._enough = most + 1
            self._asleep = new_future()
            await _bounded(self._asleep, grace)

    def cancel(self) -> None:
        """Cancel those that have not come to their end; each undoes at once what it has begun."""
        for operation in self._operations:
            operation.cancel()

    def ended(self, number: int) -> None:
        """One has come to its end."""
        self.left -= 1
        if self._asleep is not None and (not self.left or len(self.results) >= self._enough):
            wake(self._asleep)
        if self.on_end is not None:
            self.on_end(number)


class _Operation(Generic[T]):
    """One coroutine, driven as a task would drive it, by what it waits for."""

    __slots__ = ("_coroutine", "_future", "_number", "_together")

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], number: int, together: Together[T]
    ) -> None:
        self._coroutine = coroutine
        self._number = number
        self._together: Together[T] | None = together
        self._future: Future[Any] | None = None

    def step(self, _: object = None) -> None:
        """Begin, or go on because what it waited for is done."""
        self._go(self._coroutine.send, None)

    def cancel(self) -> None:
        """Cancel what it waits for and tell it, without waiting for another turn of the loop."""
        if self._future is not None:
            self._future.remove_done_callback(self.step)
            self._future.cancel()
            self._go(self._coroutine.throw, Cancelled())

    def _go(self, how: Callable[[Any], Any], value: object) -> None:
        together = self._together
        assert together is not None
        self._future = None
        try:
            future = how(value)
        except StopIteration as end:
            together.results[self._number] = end.value
        except (Exception, Cancelled) as error:
            together.errors[self._number] = error
        else:
            if future is None:
                # It only let others have their turn.
                future = new_future()
                running_loop().call_soon(wake, future)
            else:
                # What tells a task that it was awaited, and not just handed over.
                future._asyncio_future_blocking = False
            self._future = future
            future.add_done_callback(self.step)
            return
        # Each knows the other: what is over should not wait for the garbage collector.
        self._together = None
        together.ended(self._number)


async def _bounded(future: Future[None], seconds: float) -> None:
    timer: Timer = call_later(seconds, lambda: wake(future))
    try:
        await future
    finally:
        timer.cancel()
