"""What a client may leave behind in its process: threads, sockets, warnings, complaints."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.support.any_client import Client

#: Seconds for what must happen soon, however busy the machine is.
SOON = 15.0


#: Said where the machine is busy, in asyncio's debug mode; by a future of asyncpg's if connecting
#: is cancelled in the turn after TCP has connected; and by uvloop, whose loops close transports
#: as they are closed, and warn of it.
_NOT_OURS = ("Executing ", "unexpected connection_lost() call", "unclosed resource <TCPTransport")


async def use(client: Client, name: str = "k") -> None:
    """Hold it once."""
    async with asyncio.timeout(SOON), client.get_lock(name):
        pass


class _Complaints(logging.Handler):
    """Keeps what asyncio and drivers log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.getMessage()} {record.exc_info}")


def sockets() -> set[str]:
    """Return the open sockets of this process."""
    found: set[str] = set()
    for each in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{each}")
            if target.startswith("socket:"):
                found.add(target)
    return found


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


@contextmanager
def nothing_left(*, threads: bool = True) -> Iterator[None]:
    """Fail if a block leaves sockets or threads, or if Python complains of what it left.

    gRPC keeps one pair of sockets and one thread for a process: a first client comes before this.
    """
    gc.collect()
    handler, asyncio_log = _Complaints(), logging.getLogger("asyncio")
    before = sockets(), _threads()
    asyncio_log.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
            gc.collect()
            # What runs in threads of kazoo and gRPC ends a moment later.
            until = time.monotonic() + SOON
            while time.monotonic() < until and (
                sockets() - before[0] or (threads and _threads() - before[1])
            ):
                time.sleep(0.01)
                gc.collect()
    finally:
        asyncio_log.removeHandler(handler)
    said = [str(each.message) for each in caught] + handler.texts
    assert [each for each in said if not any(some in each for some in _NOT_OURS)] == []
    assert sockets() - before[0] == set()
    if threads:
        assert _threads() - before[1] == set()


class Loops:
    """Event loops of the kind that the tests run on."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self._factory = factory

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a program as `asyncio.run` does: in the end it cancels every task."""
        with asyncio.Runner(loop_factory=self._factory) as runner:
            return runner.run(work)

    def run_and_close(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a program and close its event loop, whatever still runs there."""
        loop = self._factory()
        try:
            return loop.run_until_complete(work)
        finally:
            loop.close()
