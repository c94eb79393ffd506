"""What this library uses of asyncio: tasks, futures, timers.

Only this module, the connections (`_connector`, `_stream`, `_topology`) and what uses the package
from outside its core (`sync`, `testing`, `_cli`, `pytest_plugin`) import asyncio.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import Any

Task = asyncio.Task[Any]
Loop = asyncio.AbstractEventLoop
Future = asyncio.Future
Timer = asyncio.TimerHandle
Cancelled = asyncio.CancelledError
InvalidState = asyncio.InvalidStateError
running_loop = asyncio.get_running_loop
sleep = asyncio.sleep
#: The running task, or None in a callback.
task_or_none = asyncio.current_task


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


def hush(task: Task) -> None:
    """Have asyncio say nothing if a task is collected before it is done.

    Otherwise it warns users about a task that they never created.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def discard(task: Task) -> None:
    """End a task whose event loop was closed before it was done; its cleanup must not await."""
    hush(task)
    # Nor about its future.
    waited_for = task._fut_waiter  # type: ignore[attr-defined]
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
        # The finalizers of both transports check these flags, and warn.
        for flag in ("_closing", "_closed"):
            if hasattr(transport, flag):
                setattr(transport, flag, True)
        sock = getattr(transport, "_sock", None)
        if sock is not None:
            transport._sock = None  # type: ignore[attr-defined]
            sock.close()
        # TLS has a transport of its own above that of the socket.
        transport = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)


def clock_of(loop: Loop) -> Callable[[], float]:
    """Return a loop's clock; where that is Python's monotonic clock, without a call in between."""
    own = getattr(loop.time, "__func__", None) is asyncio.BaseEventLoop.time
    return time.monotonic if own else loop.time


def new_future() -> Future[Any]:
    """Return a future of the running loop."""
    return asyncio.get_running_loop().create_future()


def start_task(work: Coroutine[Any, Any, None], name: str, context: Context | None = None) -> Task:
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


def call_later(delay: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
    """Run `callback` in `delay` seconds, unless the returned handle is cancelled."""
    return asyncio.get_running_loop().call_later(delay, callback)


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
    timer = alarm.get_loop().call_later(seconds, wake, alarm)

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
    if futures:
        when = asyncio.FIRST_COMPLETED if first else asyncio.ALL_COMPLETED
        await asyncio.wait(futures, timeout=seconds, return_when=when)


async def stop_task(task: Task) -> None:
    """Cancel a task and wait until it has ended; ignore its outcome."""
    task.cancel()
    await asyncio.wait([task])
