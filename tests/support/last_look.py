"""Waits in vain on a slow machine: which "busy" counts when the time runs out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from redisson_py import BackendError, RedissonError
from redisson_py._engine import local_queue, waiting
from redisson_py._redis.stream import stream
from redisson_py._stores import executor

T = TypeVar("T")

#: How often a wait is repeated on a machine so busy that the server itself does not run for
#: 300 ms: then its clients are told so.
TRIES = 5


def let_any_busy_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a "busy" count however old it is when the time of a wait runs out.

    As the package is, the server must say it again within the last half second. A server of a slow
    machine that does not is taken for one that does not answer.
    """
    for module in (waiting, local_queue, executor, stream):
        monkeypatch.setattr(module, "LAST_LOOK_SECONDS", 100_000.0)


def heard_silence(outcome: object) -> bool:
    """Whether a caller was told that the server did not answer."""
    return isinstance(outcome, BackendError) or "did not answer" in str(outcome)


async def answered_in_time(wait: Callable[[], Awaitable[T]]) -> T:
    """Return or raise what a wait does; repeat it when the server of a busy machine was silent."""
    for _ in range(TRIES - 1):
        try:
            return await wait()
        except RedissonError as error:
            if not heard_silence(error):
                raise
    return await wait()
