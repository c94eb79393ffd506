"""Cancelling a coroutine at every one of its suspension points, found by counting.

A `Probe` drives one coroutine inside the current task, as `await` would, and sees each of its
suspensions. At the chosen one it has the task cancelled, in one of three ways and at one of two
moments: while the task waits, or when the awaited future is done but the task has not run yet.
`sweep` repeats a trial until every suspension has had its turn.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import anyio

T = TypeVar("T")

KINDS = ("task.cancel", "anyio scope", "asyncio.timeout")

#: Seconds; only a trial that hangs takes longer.
_LONGEST = 20.0
#: More suspensions than any operation has: beyond this it is taken for endless.
_ENDLESS = 100


class Probe:
    """Runs one coroutine and cancels it at one suspension.

    Args:
        kind: How, one of `KINDS`.
        at: At which suspension, counted from 1.
        answered: Not while it waits there, but once it need not wait any longer: between the
            result of the awaited future and the task's next step.
        twice: Cancel the task once more at the suspension after that one.

    Attributes:
        suspensions: How often the coroutine was suspended.
        point: Where it was when it was cancelled; None if it never came so far.
        thrown: How often a cancellation reached it. A scope spares a task whose answer is in.
        cancelled: Whether the cancellation came out of it.
    """

    def __init__(self, kind: str, at: int, *, answered: bool = False, twice: bool = False) -> None:
        self.kind = kind
        self.at = at
        self.answered = answered
        self.twice = twice
        self.suspensions = 0
        self.point: str | None = None
        self.thrown = 0
        self.cancelled = False
        self._strike: Callable[[], object] = lambda: None

    def __str__(self) -> str:
        moment = "when the answer was in" if self.answered else "while it waited"
        again = " and at the next one" if self.twice else ""
        return (
            f"{self.kind} at suspension {self.at}, {moment}{again}: {self.point or 'not reached'}"
        )

    async def __call__(
        self, operation: Coroutine[Any, Any, T], on_suspension: Callable[[], object] = lambda: None
    ) -> T | None:
        """Return what the operation returns, or None if it was cancelled.

        `on_suspension` is called at each suspension, after the cancellation has been arranged.
        """
        task = asyncio.current_task()
        assert task is not None
        try:
            result = await self._run(task, _Driven(operation, self, on_suspension))
        except asyncio.CancelledError:
            if self.point is None:
                raise
            self.cancelled, result = True, None
        finally:
            while task.cancelling():
                task.uncancel()
        assert self.cancelled == bool(self.thrown), "the cancellation was swallowed"
        return result

    async def _run(self, task: asyncio.Task[Any], driven: _Driven[T]) -> T | None:
        call_soon = task.get_loop().call_soon
        if self.kind == "anyio scope":
            with anyio.CancelScope() as scope:
                self._strike = functools.partial(call_soon, scope.cancel)
                return await driven
            self.cancelled = scope.cancelled_caught
        elif self.kind == "asyncio.timeout":
            try:
                async with asyncio.timeout(None) as limit:
                    # A moment that has passed: it strikes in the next turn, as the others do.
                    self._strike = lambda: limit.reschedule(0)
                    return await driven
            except TimeoutError as error:
                # Not the operation's own, which are of other types.
                if type(error) is not TimeoutError or not limit.expired():
                    raise
            self.cancelled = True
        else:
            self._strike = functools.partial(call_soon, task.cancel)
            return await driven
        return None

    def wait(self, driven: _Driven[T], future: Any) -> Generator[Any, Any, None]:
        """Let the task wait for what the coroutine waits for; see to the cancellation."""
        self.suspensions += 1
        if self.suspensions == self.at:
            self.point = driven.point()
            if self.answered and future is not None:
                yield from self._until_answered(future, driven.on_suspension)
                return
            self._strike()
        elif self.twice and self.suspensions == self.at + 1:
            task = asyncio.current_task()
            assert task is not None
            task.get_loop().call_soon(task.cancel)
        driven.on_suspension()
        yield future

    def _until_answered(
        self, future: asyncio.Future[Any], on_suspension: Callable[[], object]
    ) -> Generator[Any, Any, None]:
        # A stand-in, because the task would be woken before a timeout could strike.
        loop = future.get_loop()
        stand_in = loop.create_future()

        def wake() -> None:
            if not stand_in.done():
                stand_in.set_result(None)

        def answered(done: asyncio.Future[Any]) -> None:
            # A task asks for the outcome also if it was cancelled meanwhile.
            if not done.cancelled():
                done.exception()
            self._strike()
            loop.call_soon(wake)

        # What a task does with a future that it is given.
        future._asyncio_future_blocking = False
        future.add_done_callback(answered)
        on_suspension()
        yield from stand_in


class _Driven(Generic[T]):
    """Awaits a coroutine; a probe decides about each of its suspensions."""

    def __init__(
        self, operation: Coroutine[Any, Any, T], probe: Probe, on_suspension: Callable[[], object]
    ) -> None:
        self._operation = operation
        self._probe = probe
        self.on_suspension = on_suspension

    def __await__(self) -> Generator[Any, Any, T]:
        step = functools.partial(self._operation.send, None)
        while True:
            try:
                future = step()
            except StopIteration as end:
                value: T = end.value
                return value
            step = functools.partial(self._operation.send, None)
            try:
                yield from self._probe.wait(self, future)
            except BaseException as error:
                self._probe.thrown += isinstance(error, asyncio.CancelledError)
                step = functools.partial(self._operation.throw, error)

    def point(self) -> str:
        """Return the functions that await each other, outermost first."""
        names = []
        at: Any = self._operation
        while (code := getattr(at, "cr_code", None)) is not None:
            names.append(f"{code.co_qualname}:{at.cr_frame.f_lineno}")
            at = at.cr_await
        return " > ".join(names)


@dataclass
class Swept:
    """What a sweep did.

    Attributes:
        cancellations: Trials in which the operation was cancelled, each in another way.
        again: How many of them cancelled it a second time while it was still on its way out.
        points: The suspension points, by the functions that await each other.
    """

    cancellations: int = 0
    again: int = 0
    points: set[str] = field(default_factory=set)

    def add(self, other: Swept) -> None:
        """Count another sweep in."""
        self.cancellations += other.cancellations
        self.again += other.again
        self.points |= other.points

    def __str__(self) -> str:
        return (
            f"{self.cancellations} cancellations at {len(self.points)} suspension points,"
            f" {self.again} of them twice in a row"
        )


async def sweep(trial: Callable[[Probe], Coroutine[Any, Any, None]]) -> Swept:
    """Run `trial` in a task of its own for each way to cancel what it puts through its probe.

    That is for every kind, both moments, and every suspension until there is no further one.
    Where the operation is suspended once more on its way out, it is cancelled there too.
    """
    swept = Swept()
    for kind, answered in itertools.product(KINDS, (False, True)):
        swept.add(await sweep_one_way(trial, kind, answered=answered))
    return swept


async def sweep_one_way(
    trial: Callable[[Probe], Coroutine[Any, Any, None]], kind: str, *, answered: bool
) -> Swept:
    """As `sweep`, for one kind and one moment."""
    swept = Swept()

    async def run(probe: Probe) -> Probe:
        try:
            async with asyncio.timeout(_LONGEST):
                await asyncio.create_task(trial(probe))
        except BaseException as error:
            error.add_note(f"cancelled by {probe}")
            raise
        if probe.point is not None:
            swept.points.add(probe.point)
        swept.cancellations += probe.cancelled
        swept.again += probe.thrown > 1
        return probe

    for at in itertools.count(1):
        assert at < _ENDLESS, f"{kind}: no end after {at} suspensions"
        probe = await run(Probe(kind, at, answered=answered))
        if probe.point is None:
            return swept
        if probe.thrown and probe.suspensions > at:
            await run(Probe(kind, at, answered=answered, twice=True))
    raise AssertionError
