"""What this library uses of asyncio: tasks, futures, timers.

Only this module, the connections (in `_redis`) and what uses the package
from outside its core (`sync`, `testing`, `_cli`, `pytest_plugin`) import asyncio.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Protocol, cast

Task = asyncio.Task[Any]
Loop = asyncio.AbstractEventLoop
Future = asyncio.Future
Cancelled = asyncio.CancelledError
InvalidState = asyncio.InvalidStateError
running_loop = asyncio.get_running_loop
#: The running task, or None in a callback.
task_or_none = asyncio.current_task

#: Python's monotonic clock, that of asyncio. Not `time.monotonic`: freezegun replaces that wherever
#: it finds it in a module, and asyncio's timers stand still.
monotonic: Callable[[], float] = partial(
    time.clock_gettime, getattr(time, "CLOCK_UPTIME_RAW", time.CLOCK_MONOTONIC)
)

_ASYNCIOS_CLOCK = asyncio.BaseEventLoop.time

#: Seconds by which an event loop's clock and ours differ only if a test has frozen time.
_FROZEN_SECONDS = 0.5

#: Seconds by which a timer may be early; else it was set before time was frozen.
_EARLY_SECONDS = 0.01


def current_task() -> Task:
    """Return the running task.

    Raises:
        RuntimeError: No task is running (a callback, or no event loop).
    """
    try:
        task = task_or_none()
    except RuntimeError:
        raise no_loop() from None
    if task is None:
        raise RuntimeError("this must be called from an asyncio task")
    return task


def here() -> Loop:
    """Return the running event loop.

    Raises:
        RuntimeError: There is none; the text says what is missing.
    """
    try:
        return running_loop()
    except RuntimeError:
        raise no_loop() from None


def no_loop() -> RuntimeError:
    """Return the error of a call outside any event loop of asyncio."""
    # Not imported here: a program that runs trio has imported both.
    sniffio = sys.modules.get("sniffio")
    with suppress(Exception):
        if sniffio is not None and sniffio.current_async_library() == "trio":
            return RuntimeError(
                "redisson_py needs a running event loop of asyncio; trio is not supported"
            )
    return RuntimeError(
        "redisson_py needs a running event loop: call this inside a coroutine, for example one"
        " that `asyncio.run` runs"
    )


def is_closed(loop: object) -> bool:
    """Return whether an event loop was closed, for good."""
    return isinstance(loop, Loop) and loop.is_closed()


class _AsyncioTask(Protocol):
    """What asyncio's tasks have beside their public names."""

    _log_destroy_pending: bool
    _fut_waiter: Future[Any] | None


def hush(task: Task) -> None:
    """Have asyncio say nothing if a task is collected before it is done.

    Otherwise it warns users about a task that they never created.
    """
    cast("_AsyncioTask", task)._log_destroy_pending = False


def discard(task: Task) -> None:
    """End a task whose event loop was closed before it was done; its cleanup must not await."""
    hush(task)
    # Nor about its future.
    waited_for = cast("_AsyncioTask", task)._fut_waiter
    if waited_for is not None and waited_for.done() and not waited_for.cancelled():
        waited_for.exception()
    with suppress(Exception):
        # None for a task that ran to its end at once (Python 3.12).
        task.get_coro().close()


def end_task(task: Task) -> None:
    """End a task where nothing can be awaited: its event loop was closed, or ends now."""
    if is_closed(task.get_loop()):
        if not task.done():
            discard(task)
    else:
        task.cancel()


def tear_off_transport(transport: object) -> None:
    """Close the socket of a transport whose event loop was closed before it.

    asyncio's transports cannot be closed then; uvloop has closed its own.
    """
    # Not uvloop's, which have no base class in asyncio.
    while isinstance(transport, asyncio.BaseTransport):
        sock = getattr(transport, "_sock", None)
        # The finalizers of both transports check these, and warn.
        for name, value in (("_closing", True), ("_closed", True), ("_sock", None)):
            if hasattr(transport, name):
                setattr(transport, name, value)
        if sock is not None:
            sock.close()
        # TLS has a transport of its own above that of the socket.
        transport = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)


def clock_of(loop: Loop) -> Callable[[], float]:
    """Return a loop's clock; where that is Python's monotonic clock, one that nobody freezes."""
    return monotonic if type(loop).time is _ASYNCIOS_CLOCK else loop.time


def loop_time() -> float:
    """Return the time by the clock of the running loop."""
    loop = running_loop()
    # As in `clock_of`, without a call.
    return monotonic() if type(loop).time is _ASYNCIOS_CLOCK else loop.time()


def new_future() -> Future[Any]:
    """Return a future of the running loop."""
    return asyncio.get_running_loop().create_future()


def start_task(work: Coroutine[Any, Any, Any], name: str, context: Context | None = None) -> Task:
    """Start a background task.

    Args:
        work: What it does.
        name: Its name.
        context: Its context variables; None: those of the caller. Work for all callers must not
            have the variables, such as a trace, of the call that happens to start it.
    """
    loop = asyncio.get_running_loop()
    if context is None:
        return loop.create_task(work, name=name)
    # Not an argument of `create_task`, which not every task factory takes. A copy, because a
    # context is entered once at a time.
    return context.copy().run(loop.create_task, work, name=name)


class Timer(Protocol):
    """Runs something later, unless it is cancelled."""

    def cancel(self) -> None:
        """Do not run it."""


class _RealTimer:
    """A timer that is right although a test freezes time before, while or after it runs.

    A thread measures the time while the loop's own clock is frozen.
    """

    __slots__ = ("_callback", "_due", "_loop", "_timer")

    def __init__(
        self, loop: Loop, due: float, present: float, callback: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._due = due
        # Both are None once it is over: what it calls often refers to this timer, and so does the
        # loop's own.
        self._callback: Callable[[], object] | None = callback
        self._timer: Timer | None = self._start(present)

    def _start(self, present: float) -> Timer:
        loop = self._loop
        if -_FROZEN_SECONDS < loop.time() - present < _FROZEN_SECONDS:
            return loop.call_at(self._due, self._ring)
        # Looked at again: a process that is paused comes here, too.
        left = max(0.0, self._due - monotonic())
        context = copy_context()

        def ring() -> None:
            # The loop may have been closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._ring, context=context)

        timer = threading.Timer(left, ring)
        timer.daemon = True
        timer.start()
        return timer

    def _ring(self) -> None:
        callback = self._callback
        if callback is None:
            return
        present = monotonic()
        if self._due - present > _EARLY_SECONDS:
            self._timer = self._start(present)
        else:
            self._callback = self._timer = None
            callback()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._callback = self._timer = None


def call_at(moment: float, callback: Callable[[], object]) -> Timer:
    """Run `callback` at a moment of `loop_time`, unless the returned timer is cancelled."""
    loop = running_loop()
    if clock_of(loop) is monotonic:
        return _RealTimer(loop, moment, monotonic(), callback)
    return loop.call_at(moment, callback)


def call_later(delay: float, callback: Callable[[], object]) -> Timer:
    """Run `callback` in `delay` seconds, unless the returned timer is cancelled."""
    loop = running_loop()
    if clock_of(loop) is not monotonic:
        return loop.call_later(delay, callback)
    present = monotonic()
    return _RealTimer(loop, present + delay, present, callback)


def wake(future: Future[Any] | None, value: object = None) -> bool:
    """Set the result of a pending future; return whether it was pending."""
    if future is None or future.done():
        return False
    future.set_result(value)
    return True


def fail(future: Future[Any] | None, error: BaseException) -> None:
    """Set the error of a pending future; do nothing if it is done."""
    if future is not None and not future.done():
        future.set_exception(error)


async def wait_until(future: Future[Any], seconds: float | None) -> bool:
    """Wait for `future` at most `seconds`; return whether it is done.

    Unlike `asyncio.wait_for`, running out of time leaves the future alone, and a
    cancellation is never swallowed.
    """
    if future.done() or seconds is None:
        await future
        return True
    if seconds <= 0:
        await asyncio.sleep(0)
        return future.done()
    alarm = new_future()
    timer = call_later(seconds, lambda: wake(alarm))

    def done(_: Future[Any]) -> None:
        wake(alarm)

    future.add_done_callback(done)
    try:
        await alarm
    finally:
        timer.cancel()
        future.remove_done_callback(done)
    return future.done()


async def wait_for_all(
    futures: Collection[Future[Any]], seconds: float | None = None, *, first: bool = False
) -> None:
    """Wait until all futures are done, or the first, at most for `seconds`; cancels none."""
    if not futures:
        return
    pending, ended = {*futures}, new_future()

    def done(future: Future[Any]) -> None:
        pending.discard(future)
        if first or not pending:
            wake(ended)

    for future in futures:
        future.add_done_callback(done)
    try:
        await wait_until(ended, seconds)
    finally:
        for future in futures:
            future.remove_done_callback(done)


@asynccontextmanager
async def time_limit(seconds: float | None) -> AsyncGenerator[asyncio.Timeout]:
    """As `asyncio.timeout`, by `loop_time`."""
    loop = running_loop()
    async with asyncio.timeout(None) as limit:
        if seconds is None:
            yield limit
            return
        timer = call_later(seconds, lambda: limit.reschedule(loop.time()))
        try:
            yield limit
        finally:
            timer.cancel()


async def sleep(seconds: float) -> None:
    """As `asyncio.sleep`, by `loop_time`."""
    if seconds <= 0:
        await asyncio.sleep(0)
    else:
        await wait_until(new_future(), seconds)


async def end_tasks(tasks: Collection[Task]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        # An event loop that shuts down has cancelled them already; not a second time.
        if not task.cancelling():
            task.cancel()
    await wait_for_all(tasks)


async def stop_task(task: Task) -> None:
    """Cancel a task and wait until it has ended; ignore its outcome."""
    task.cancel()
    await asyncio.wait([task])
