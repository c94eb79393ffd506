"""Threads of tests: each runs one function, and what comes of it is asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from redisson_py import ClientStatistics
from redisson_py.sync import Redisson

T = TypeVar("T")
ClientFactory = Callable[..., Redisson]

#: Seconds of a wait that ends as "busy": the server has that long to say so.
BUSY_WAIT = 0.5


class Counting(Protocol):
    """A client for threads, of any store."""

    def statistics(self) -> ClientStatistics:
        """Return its counters."""
        ...


class Running(Generic[T]):
    """A thread that runs a function."""

    def __init__(self, func: Callable[[], T]) -> None:
        self._func = func
        self._future: Future[T] = Future()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._future.set_result(self._func())
        except BaseException as error:
            self._future.set_exception(error)
        # Or the future of an error would keep what its frames refer to.
        del self._func

    def result(self) -> T:
        """Return what the function returned, or raise what it raised, when its thread has ended."""
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self._future.result(0)

    def error(self) -> BaseException | None:
        """Return what the function raised."""
        self.thread.join(30)
        return self._future.exception(0)


def in_thread(func: Callable[[], T]) -> T:
    """Return what a function returns in a thread of its own."""
    return Running(func).result()


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Return when `condition()` is true; fail if that takes longer than `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.002)


def until_waiting(client: Counting, count: int = 1) -> None:
    """Return when so many threads of this client wait."""
    until(lambda: client.statistics().waiters == count)
