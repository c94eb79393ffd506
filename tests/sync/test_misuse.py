"""Calls that cannot work say what to write instead, as those of the async client do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from redisson_py.sync import Redisson

NOWHERE = "redis://127.0.0.1:1"

LOCKS: dict[str, Callable[[Redisson], Any]] = {
    "lock": lambda client: client.get_lock("k"),
    "fair_lock": lambda client: client.get_fair_lock("k"),
    "fenced_lock": lambda client: client.get_fenced_lock("k"),
    "read_lock": lambda client: client.get_read_write_lock("k").read_lock(),
    "multi_lock": lambda client: client.get_multi_lock(client.get_lock("k")),
    "red_lock": lambda client: client.get_red_lock(client.get_lock("k")),
    "semaphore": lambda client: client.get_semaphore("k", 1),
    "expirable_semaphore": lambda client: client.get_permit_expirable_semaphore("k", 1),
}
locks = pytest.mark.parametrize("make", LOCKS.values(), ids=LOCKS)


@locks
def test_an_argument_of_another_library(make: Callable[[Redisson], Any]) -> None:
    lock = make(Redisson.from_url(NOWHERE))
    for call in (lock.acquire, lock.try_acquire, lock.hold, lock):
        for word, ours in {
            "blocking_timeout": "timeout=",
            "blocking": r"try_acquire\(\)",
            "thread_local": "redisson_py.sync: the current thread",
            "expire": "lease_time=",
        }.items():
            with pytest.raises(TypeError, match=f"has no argument {word!r}: .*{ours}"):
                call(**{word: 5})


@locks
def test_a_time_by_position(make: Callable[[Redisson], Any]) -> None:
    lock = make(Redisson.from_url(NOWHERE))
    before = (1,) if hasattr(lock, "drain") else ()
    for name in ("acquire", "try_acquire", "hold"):
        with pytest.raises(TypeError, match=r"timeout=5\), the time to wait"):
            getattr(lock, name)(*before, 5)


def test_times_given_to_the_lock() -> None:
    client = Redisson.from_url(NOWHERE)
    makers: list[Callable[..., Any]] = [client.get_lock, client.get_fair_lock]
    for get in makers:
        for args, given in (((10,), {}), ((), {"timeout": 10})):
            with pytest.raises(TypeError, match="What redis-py calls timeout is lease_time= here"):
                get("k", *args, **given)


@locks
def test_async_with(make: Callable[[Redisson], Any]) -> None:
    client = Redisson.from_url(NOWHERE)

    async def enter(block: Any) -> None:
        async with block:
            pass

    for block in (client, make(client), make(client).hold(timeout=1)):
        with pytest.raises(TypeError, match="for threads: in an `async def` take the client from"):
            asyncio.run(enter(block))


def test_a_read_write_lock_is_no_block() -> None:
    both: Any = Redisson.from_url(NOWHERE).get_read_write_lock("k")
    with pytest.raises(TypeError, match=r"`with lock.read_lock\(\):`"):
        with both:
            pass
