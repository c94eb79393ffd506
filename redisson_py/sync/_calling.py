"""Calls from threads: each thread has a task in the event loop that makes its calls.

The holder of a lock is the current task of the event loop. So each calling thread has one
long-lived task there, its actor, which makes the calls of the thread one after the other: what
the actor holds, the thread holds. The actor ends with its thread. Holds that are left are then not
renewed any more, as after the end of a task, unless somebody still has the lease.

A call may be abandoned at any moment: its thread was interrupted by a signal whose handler raised
(Ctrl-C, Celery's soft time limit), or its block became garbage. A call that has not begun is
dropped, one that is under way is cancelled, and leases that it brought are given back. The event
loop decides which of these applies, so a lease never gets lost between the two threads.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Generic, TypeVar, cast

from redisson_py import ClientClosedError, Lease, RedissonError
from redisson_py.sync import _loop_thread
from redisson_py.sync._loop_thread import LoopThread

T = TypeVar("T")

#: Tasks that no actor waits for. The event loop itself would forget them.
_tasks: set[asyncio.Task[None]] = set()


class _State(Enum):
    QUEUED = auto()
    UNDER_WAY = auto()
    ENDED = auto()


class Call(Generic[T]):
    """One call of a thread, from its making to its outcome.

    Args:
        work: Makes the coroutine, in the event loop.
        leases: Returns the leases in an outcome, which are given back if nobody takes them.
    """

    __slots__ = (
        "_abandoned",
        "_context",
        "_error",
        "_finished",
        "_leases",
        "_loop_thread",
        "_result",
        "_state",
        "_task",
        "_work",
    )

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, T]],
        leases: Callable[[T], Iterable[Lease]] = lambda outcome: (),
    ) -> None:
        self._work = work
        self._leases = leases
        self._state = _State.QUEUED
        self._abandoned = False
        self._context = contextvars.copy_context()
        self._result: T | None = None
        self._error: BaseException | None = None
        self._task: asyncio.Task[Any] | None = None
        self._loop_thread: LoopThread | None = None
        self._finished = threading.Lock()
        self._finished.acquire()

    # In the thread that calls.

    def outcome(self, by_actor: bool = True) -> T:
        """Have the thread's actor make the call, and wait for its outcome.

        Args:
            by_actor: False has a task of its own make it, at once, whatever the actor does.
        """
        _refuse_event_loops()
        self._loop_thread = loop_thread = _loop_thread.start()
        make = _seat(loop_thread).actor.add if by_actor else _make_alone
        try:
            if not loop_thread.soon(make, self):
                raise ClientClosedError("the interpreter is exiting")
            self._wait()
        except BaseException:
            if self.abandon():
                # Then nothing is held when the caller goes on. A second signal ends this wait,
                # and the event loop does the same without us.
                self._wait()
            raise
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # Or its traceback would keep itself.
                error = None
        return cast("T", self._result)

    def _wait(self) -> None:
        # It can be acquired only once, perhaps before the interruption.
        if self._state is not _State.ENDED:
            self._finished.acquire()

    def abandon(self) -> bool:
        """Give it up, and give back what it brought; return whether an event loop will do that."""
        loop_thread = self._loop_thread
        if loop_thread is None or loop_thread is not _loop_thread.running():
            # It never began, or it belongs to the parent, before a fork.
            return False
        return loop_thread.soon(self._abandon)

    # In the event loop.

    def _abandon(self) -> None:
        if self._abandoned:
            return
        self._abandoned = True
        if self._state is _State.QUEUED:
            self._finish()
        elif self._state is _State.UNDER_WAY:
            assert self._task is not None
            self._task.cancel()
        else:
            self._give_back()

    async def make(self) -> None:
        """Make the call in the current task.

        Raises:
            asyncio.CancelledError: The event loop ends.
        """
        if self._abandoned:
            return
        task = self._task = asyncio.current_task()
        assert task is not None
        self._state = _State.UNDER_WAY
        # What the thread has set, such as its current span, counts for this call only.
        tokens = [(each, each.set(value)) for each, value in self._context.items()]
        try:
            self._result = await self._work()
        except asyncio.CancelledError:
            if not self._abandoned:
                self._error = ClientClosedError("the interpreter is exiting")
                raise
        except BaseException as error:
            self._error = error
        finally:
            for each, token in tokens:
                each.reset(token)
            if self._abandoned:
                task.uncancel()
                self._give_back()
            self._finish()

    def refuse(self) -> None:
        """Fail the call without making it: the event loop ends."""
        self._error = ClientClosedError("the interpreter is exiting")
        self._finish()

    def _finish(self) -> None:
        self._task = None
        if self._state is not _State.ENDED:
            self._state = _State.ENDED
            self._finished.release()

    def _give_back(self) -> None:
        result, self._result = self._result, None
        if result is not None:
            for lease in self._leases(result):
                _begin(_release(lease))


def _begin(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)


def _make_alone(call: Call[Any]) -> None:
    _begin(call.make())


async def _release(lease: Lease) -> None:
    with suppress(RedissonError):
        await lease.release()


class Actor:
    """What makes the calls of one thread: a task of the event loop, until the thread ends."""

    def __init__(self) -> None:
        self._calls: deque[Call[Any]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._thread_ended = False
        self._ended = False

    async def run(self) -> None:
        """Make the calls, one after the other."""
        try:
            while await self._come():
                await self._calls.popleft().make()
        finally:
            self._ended = True
            for call in self._calls:
                call.refuse()

    async def _come(self) -> bool:
        """Wait for a call; return False if there are no more."""
        while not self._calls:
            if self._thread_ended:
                return False
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        return True

    def add(self, call: Call[Any]) -> None:
        """Make one more call."""
        if self._ended:
            call.refuse()
            return
        self._calls.append(call)
        self._wake_up()

    def end(self) -> None:
        """Note that its thread has ended."""
        self._thread_ended = True
        self._wake_up()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class _Seat:
    """The thread's reference to its actor; it is deleted when the thread ends."""

    #: None until the actor may have been started: a signal handler may raise before.
    loop_thread: LoopThread | None = None

    def __init__(self, loop_thread: LoopThread) -> None:
        self.actor = Actor()
        self.loop_thread = loop_thread
        name = threading.current_thread().name
        # Nothing of the thread's context: each call brings its own.
        contextvars.Context().run(
            lambda: loop_thread.portal.start_task_soon(self.actor.run, name=name)
        )

    # When the interpreter ends, names of modules are gone before the last objects.
    def __del__(self, running: Callable[[], LoopThread | None] = _loop_thread.running) -> None:
        if self.loop_thread is not None and self.loop_thread is running():
            self.loop_thread.soon(self.actor.end)


class _Seats(threading.local):
    seat: _Seat | None = None


_seats = _Seats()


def _seat(loop_thread: LoopThread) -> _Seat:
    """Return the current thread's."""
    seat = _seats.seat
    if seat is None or seat.loop_thread is not loop_thread:
        seat = _seats.seat = _Seat(loop_thread)
    return seat


def _refuse_event_loops() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "this thread runs an event loop, which redisson_py.sync would block: use an async client"
        " there, as `from redisson_py import Redisson`, or call this in asyncio.to_thread"
    )


def look(looking: Callable[[], T]) -> T:
    """Return what a function returns that the event loop calls at once, if there is one."""
    loop_thread = _loop_thread.running()
    if loop_thread is None or loop_thread.is_current:
        return looking()
    return loop_thread.portal.start_task_soon(_looking, looking).result()


async def _looking(looking: Callable[[], T]) -> T:
    return looking()
