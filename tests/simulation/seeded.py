"""Everything that the package would take from the machine, from a seed instead.

This is the whole list. Time comes from the event loop, and the package takes nearly all of it from
there; what reads another clock, or draws random numbers, is replaced here for the time of a run:

- `_time.now`, wherever it was imported, and `_redis.stream.wire.monotonic`: the time of the loop;
- `uuid4` in `_owner`: client ids; `secrets` in `_redis.view`: ids of receipts;
- the global `random` (retries, spreads, polls, and redis-py's): seeded, and put back afterwards;
- the name of the host and the number of the process in `_redis.inspecting`;
- the first message of TLS in `_redis.connector`, which is random;
- the version of redis-py, which it reads from a file for each client: read once;
- the garbage collector: off, since what it finds runs callbacks; `collect` runs it.

Sets of tasks are in the order of their addresses. Nothing that a simulation does may depend on it.
"""

from __future__ import annotations

import functools
import gc
import logging
import random
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import redis.utils

from redisson_py import _owner, _time
from redisson_py._redis import connector, inspecting, view
from redisson_py._redis.stream import wire

_real_now = _time.now


_version_of_redis_py = functools.cache(redis.utils.get_lib_version)


@functools.lru_cache(1)
def _users_of_now(modules_imported: int) -> list[Any]:
    """Return the modules that have imported the clock of leases."""
    modules = [module for name, module in sys.modules.items() if name.startswith("redisson_py")]
    return [module for module in modules if vars(module).get("now") is _real_now]


@contextmanager
def seeded(now: Callable[[], float], chance: random.Random) -> Iterator[None]:
    """Take time and random numbers from the arguments, inside the block."""
    before = [(each, "now", _real_now) for each in _users_of_now(len(sys.modules))]
    changes: list[tuple[Any, str, object]] = [(each, "now", now) for each, _, _ in before]
    changes += [
        (wire, "monotonic", now),
        (_owner, "uuid", SimpleNamespace(UUID=uuid.UUID, uuid4=lambda: _uuid(chance))),
        (view, "secrets", SimpleNamespace(token_hex=lambda n: chance.randbytes(n).hex())),
        (inspecting, "socket", SimpleNamespace(gethostname=lambda: "simulated")),
        (inspecting, "os", SimpleNamespace(getpid=lambda: 1)),
        (redis.utils, "get_lib_version", _version_of_redis_py),
        (connector, "_client_hello", lambda: b"\x16\x03\x01"),
    ]
    kept = [(where, name, getattr(where, name)) for where, name, _ in changes]
    state, collecting = random.getstate(), gc.isenabled()
    gc.disable()
    random.seed(chance.random())
    for where, name, value in changes:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, value in kept:
            setattr(where, name, value)
        random.setstate(state)
        if collecting:
            gc.enable()


def _uuid(chance: random.Random) -> uuid.UUID:
    return uuid.UUID(bytes=chance.randbytes(16), version=4)


@contextmanager
def quiet() -> Iterator[None]:
    """Log nothing: losses and outages are what a simulation is about."""
    log = logging.getLogger("redisson_py")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def collect() -> None:
    """Run the garbage collector, at a moment that is the same in each run of a seed."""
    gc.collect()
