"""The background event loop: one thread of the process, in which all clients of `sync` work.

It starts with the first use, never at import, and is a daemon, so it does not keep the
interpreter from exiting: at exit the clients are closed, which releases what they hold, and the
thread is stopped. After a fork the child has no such thread; the next use starts another one.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal

from redisson_py import ClientClosedError, Locks
from redisson_py._forks import no_fork

#: Seconds for which an exiting interpreter waits for the thread to end after its clients closed.
_LAST_WAIT = 5.0

#: Seconds for which a thread waits for the event loop to start. It takes milliseconds.
_LONGEST_START = 30.0


class LoopThread:
    """A thread with an event loop.

    Not `anyio.from_thread.start_blocking_portal`: interrupted by a signal while the thread starts,
    that joins a thread which never ends.

    Attributes:
        loop: The event loop.
        portal: Starts tasks in it.
    """

    loop: asyncio.AbstractEventLoop
    portal: BlockingPortal

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="redisson_py.sync", daemon=True)
        self._thread.start()
        if not self._ready.wait(_LONGEST_START):
            raise RuntimeError(
                f"the thread of redisson_py.sync did not start within {_LONGEST_START:g} s;"
                " perhaps this process was forked while another thread was importing what it needs"
            )
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            anyio.run(self._serve)
        except BaseException as error:
            if self._ready.is_set() and not _exiting:
                raise
            # From Python 3.12 on no thread starts at exit, and an event loop needs one to stop the
            # threads that resolved host names.
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        async with BlockingPortal() as self.portal:
            self.loop = asyncio.get_running_loop()
            self._ready.set()
            await self.portal.sleep_until_stopped()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return self._thread is threading.current_thread()

    def soon(self, callback: Callable[..., object], *arguments: Any) -> bool:
        """Have the loop call a function; return False if it has ended. For any thread."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(callback, *arguments)
            return True
        return False

    def stop(self) -> None:
        """Cancel its tasks, and wait for the end of the thread."""
        with suppress(RuntimeError):
            self.portal.start_task_soon(self.portal.stop, True)
            self._thread.join(_LAST_WAIT)


_running: LoopThread | None = None
_exiting = False
#: The threads of parent processes. Never collected: their cleanup would touch what the parent uses.
_of_parents: list[LoopThread] = []
#: The clients that close when the interpreter exits. One that is connected refers to itself.
_clients: weakref.WeakSet[Locks] = weakref.WeakSet()


def running() -> LoopThread | None:
    """Return the thread, if it has been started in this process."""
    return _running


def is_exiting() -> bool:
    """Return whether the interpreter exits, and all clients are closed."""
    return _exiting


def start() -> LoopThread:
    """Return the thread, which is started if need be.

    Raises:
        ClientClosedError: The interpreter is exiting.
        RuntimeError: `threading` is patched, or the thread does not start.
    """
    global _running
    if _running is not None:
        return _running
    with no_fork():
        if _exiting:
            raise ClientClosedError("the interpreter is exiting")
        if _running is None:
            _refuse_patched_threads()
            _running = LoopThread()
        return _running


def close_at_exit(client: Locks) -> None:
    """Have a client closed when the interpreter exits."""
    with no_fork():
        _clients.add(client)


def _refuse_patched_threads() -> None:
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if (gevent is not None and gevent.is_module_patched("threading")) or (
        eventlet is not None and eventlet.is_monkey_patched("thread")
    ):
        raise RuntimeError(
            "redisson_py.sync needs threads of the operating system, but gevent or eventlet has"
            " replaced them; neither is supported"
        )


def _forked() -> None:
    """In the child of a fork: the thread is not there."""
    global _running
    if _running is not None:
        _of_parents.append(_running)
    _running = None


def _exit() -> None:
    """Close all clients and stop the thread, when no other non-daemon thread is left."""
    global _exiting
    with no_fork():
        _exiting = True
        clients = list(_clients)
    if _running is None:
        return

    async def close_all() -> None:
        closing = [client.aclose() for client in clients]
        await asyncio.gather(*closing, return_exceptions=True)

    with suppress(RuntimeError):
        _running.portal.start_task_soon(close_all).result()
    _running.stop()


os.register_at_fork(after_in_child=_forked)
atexit.register(_exit)
