"""What a fork waits for: imports of this package and of what a client needs, and the first TLS.

The child of a fork has one thread. A lock that another thread of its parent had stays taken in it
forever.

- Each module has such a lock while it is imported. So modules of this package import what they need
  at their top, or inside `no_fork`, before the first use of a client.
- OpenSSL has some, which Python's lock does not protect. It has them longest while it makes its
  first context and its first connection: that is inside `no_fork`, or `first_tls` where it awaits.

A fork waits until that is done.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import _bootstrap, import_module
from typing import Any

#: Seconds for which a fork waits. What it waits for may need something that its thread has.
LONGEST_WAIT_SECONDS = 30.0

#: Seconds for which it waits for a connection: the server may be silent.
LONGEST_CONNECT_SECONDS = 2.0

#: Seconds between two looks at what other threads do.
_PAUSE_SECONDS = 0.001

#: Reentrant, because a signal handler may call what holds it, and what holds it may fork.
_lock = threading.RLock()

#: The thread of each attempt to open the first connection with TLS.
_connecting: dict[object, int] = {}
_has_connected = False


@contextmanager
def no_fork() -> Generator[None]:
    """Let no other thread fork during this block; it may be entered again inside."""
    with _lock:
        yield


@contextmanager
def first_tls(uses: bool) -> Generator[None]:
    """Let no other thread fork while this block opens the first connection, if it uses TLS.

    The block may await.
    """
    global _has_connected
    if _has_connected or not uses:
        yield
        return
    attempt = object()
    with no_fork():
        _connecting[attempt] = threading.get_ident()
    try:
        yield
        _has_connected = True
    finally:
        _connecting.pop(attempt, None)


def _wait() -> None:
    start = time.monotonic()
    _lock.acquire(timeout=LONGEST_WAIT_SECONDS)
    while (waited := time.monotonic() - start) < LONGEST_WAIT_SECONDS and (
        _others_import() or (waited < LONGEST_CONNECT_SECONDS and _others_connect())
    ):
        _go_on()
        time.sleep(_PAUSE_SECONDS)
        _lock.acquire(timeout=LONGEST_WAIT_SECONDS)


def _others_connect() -> bool:
    """Return whether another thread opens the first connection with TLS."""
    return any(thread != threading.get_ident() for thread in list(_connecting.values()))


def _others_import() -> bool:
    """Return whether another thread imports a module of this package."""
    # A private name of Python: the locks of the modules that are being imported. There is none yet
    # in `sys.modules` of a module whose package is imported first.
    found: dict[str, Any] = vars(_bootstrap)["_module_locks"]
    locks = [
        lock() for name, lock in list(found.items()) if name.partition(".")[0] == "redisson_py"
    ]
    return any(
        lock is not None and lock.owner not in (None, threading.get_ident()) for lock in locks
    )


def _go_on() -> None:
    # It may have waited in vain.
    with suppress(RuntimeError):
        _lock.release()


def _forked() -> None:
    global _lock
    # A thread of the parent may have it. A block that this thread is in releases the other one.
    _lock = threading.RLock()
    _connecting.clear()


# These two have hooks of their own. Registered while a fork waits for an import, they would be
# called only after it, to release locks that they had not acquired.
for _name in ("concurrent.futures.thread", "logging"):
    import_module(_name)
os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_forked)
