"""Runs several short operations at once, without a task for each.

An operation that sends a command and awaits the reply needs no task: its first step runs at
once, so that the command is sent, and the rest runs in callbacks of the futures it awaits. Five
servers are asked in the time of one. A caller that stops waiting, because enough operations
have ended, or because it was cancelled, leaves the others to run to their end.

An operation may ask for the current task before its first await only. One that mostly ends with
the reply to a single command needs no coroutine either; see `Sent`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from redisson_py._loop import Cancelled, Future, call_later, new_future, running_loop, wake

T = TypeVar("T")


class Gather(Generic[T]):
    """Operations that were started together.

    Args:
        operations: What to start, in this order, or to wait for, if it was begun already.

    Attributes:
        results: What the operations returned that have ended, by their number.
        errors: What the others raised, by their number.
        left: How many have not ended.
        on_end: Called with the number of each operation that ends from now on.
    """

    __slots__ = ("_asleep", "_enough", "_operations", "errors", "left", "on_end", "results")

    def __init__(self, operations: Iterable[Coroutine[Any, Any, T] | Sent[T]]) -> None:
        self.results: dict[int, T] = {}
        self.errors: dict[int, BaseException] = {}
        self.on_end: Callable[[int], object] | None = None
        self._asleep: Future[None] | None = None
        self._enough = 0
        self._operations: list[Any] = list(operations)
        self.left: int = len(self._operations)
        for number, each in enumerate(self._operations):
            if isinstance(each, Sent):
                each._gather, each._number = self, number
            else:
                self.drive(number, each)

    async def wait(
        self, enough: int | None = None, grace: float = 0, limit: float | None = None
    ) -> None:
        """Wait until all operations have ended.

        With `enough`, wait until that many have returned, and `grace` more seconds for the others.
        With `limit`, wait for at most that many seconds. Operations that have not ended by then
        go on, also if this call is cancelled.
        """
        most = len(self._operations)
        if enough is None or enough > most:
            enough = most
        if self.left and len(self.results) < enough:
            await self._sleep(enough, limit)
        if grace and self.left and len(self.results) >= enough:
            await self._sleep(most + 1, grace)

    async def _sleep(self, enough: int, seconds: float | None) -> None:
        self._enough = enough
        self._asleep = future = new_future()
        timer = None if seconds is None else call_later(max(0.0, seconds), lambda: wake(future))
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()

    def when_ended(self, act: Callable[[], object]) -> None:
        """Act when all operations have ended, which may be now."""
        if self.left:
            self.on_end = lambda _: self.left or act()
        else:
            act()

    def cancel(self) -> None:
        """Cancel the operations that have not ended; each undoes at once what it has begun."""
        for operation in self._operations:
            operation.cancel()

    def drive(self, number: int, coroutine: Coroutine[Any, Any, T]) -> None:
        """Start an operation, or the part of it that follows its first reply."""
        operation = self._operations[number] = _Driven(coroutine, number, self)
        operation.step()

    def ended(self, number: int) -> None:
        """One operation has ended."""
        self.left -= 1
        asleep = self._asleep
        if asleep is not None and (not self.left or len(self.results) >= self._enough):
            self._asleep = None
            wake(asleep)
        if self.on_end is not None:
            self.on_end(number)


class Sent(Future[Any], Generic[T]):
    """An operation whose command was sent: the future of the reply, which usually ends it.

    That happens at once, while the reply is read: an iteration of the event loop for each reply
    would cost more than everything else that is done with it.
    """

    __slots__ = ("_gather", "_number")

    #: Set by the gather, before anything can have been answered; None: it has ended or goes on.
    _gather: Gather[T] | None
    _number: int

    def finish(self, reply: Any) -> T | None:
        """Return the result if the reply completes the operation; else change nothing."""
        raise NotImplementedError

    def resume(self) -> Coroutine[Any, Any, T]:
        """Return a coroutine that awaits this future again and completes the operation."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Undo what was begun, because it was cancelled before the reply."""
        raise NotImplementedError

    def set_result(self, reply: object) -> None:
        """The reply is there."""
        super().set_result(reply)
        try:
            result = self.finish(reply)
        except Exception as error:
            self._fail(error)
            return
        if result is None:
            self._go_on()
            return
        gather, self._gather = self._gather, None
        assert gather is not None
        gather.results[self._number] = result
        gather.ended(self._number)

    def set_exception(self, error: type | BaseException) -> None:
        """There is no reply, or it is an error."""
        super().set_exception(error)
        # Retrieved here, because `resume` may raise another error: no warning of asyncio.
        self.exception()
        self._go_on()

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting for the reply, and undo at once what was begun."""
        if self._gather is None:
            return False
        super().cancel(msg)
        self.abandon()
        self._fail(Cancelled())
        return True

    def _go_on(self) -> None:
        gather, self._gather = self._gather, None
        assert gather is not None
        gather.drive(self._number, self.resume())

    def _fail(self, error: BaseException) -> None:
        gather, self._gather = self._gather, None
        assert gather is not None
        gather.errors[self._number] = error
        gather.ended(self._number)


class _Driven(Generic[T]):
    """One coroutine, driven as a task would drive it, by the futures it awaits."""

    __slots__ = ("_coroutine", "_future", "_gather", "_number")

    def __init__(self, coroutine: Coroutine[Any, Any, T], number: int, gather: Gather[T]) -> None:
        self._coroutine = coroutine
        self._number = number
        self._gather: Gather[T] | None = gather
        self._future: Future[Any] | None = None

    def step(self, _: object = None) -> None:
        """Start, or go on because the awaited future is done."""
        if self._gather is not None:
            # Not cancelled after this iteration of the loop was asked to go on.
            self._run(self._coroutine.send, None)

    def cancel(self) -> None:
        """Cancel what it awaits and tell it, without waiting for another iteration of the loop."""
        if self._future is not None:
            self._future.remove_done_callback(self.step)
            self._future.cancel()
            self._run(self._coroutine.throw, Cancelled())

    def _run(self, resume: Callable[[Any], Any], value: object) -> None:
        self._future = None
        try:
            future = resume(value)
        except StopIteration as end:
            self._end(end.value, None)
        except (Exception, Cancelled) as error:
            # This frame is part of the error: it must not refer to where the error is kept.
            self._end(None, error)
        else:
            if future is None:
                # A bare yield: it only let others run.
                future = new_future()
                running_loop().call_soon(wake, future)
            else:
                # What tells a task that the future was awaited, and not just yielded.
                future._asyncio_future_blocking = False
            self._future = future
            future.add_done_callback(self.step)

    def _end(self, result: Any, error: BaseException | None) -> None:
        # Each refers to the other: do not leave that to the garbage collector.
        gather, self._gather = self._gather, None
        assert gather is not None
        if error is None:
            gather.results[self._number] = result
        else:
            gather.errors[self._number] = error
        gather.ended(self._number)
