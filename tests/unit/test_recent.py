"""What is kept for names used of late: bounded, and what is in use stays."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from redisson_py import Redisson
from redisson_py._engine.context import Recent


def test_what_is_used_stays_and_the_rest_is_bounded() -> None:
    recent = Recent[int, object](10)
    made: list[int] = []

    def look_up(name: int) -> object:
        def make() -> object:
            made.append(name)
            return object()

        try:
            return recent[name]
        except KeyError:
            return recent.made(name, make)

    used = look_up(0)
    for name in range(1, 1000):
        look_up(name)
        assert look_up(0) is used
        assert len(recent) <= 10
        assert len(recent) + len(recent._old) <= 20
    assert made == [*range(1000)]
    # Long gone, so made again.
    look_up(1)
    assert made[-1] == 1


def test_what_cannot_be_made_is_not_kept() -> None:
    recent = Recent[int, object](10)
    with pytest.raises(ZeroDivisionError):
        recent.made(1, lambda: 1 // 0)
    assert not recent


GETTERS = ("get_lock", "get_fenced_lock", "get_fair_lock", "get_read_write_lock")


@pytest.mark.parametrize("getter", [*GETTERS, "get_semaphore"])
def test_wrong_names_are_refused_each_time(getter: str) -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")
    get = getattr(client, getter)
    for _ in range(2):
        wrong: list[object] = [[], None, 5, ("k",)]
        for name in wrong:
            with pytest.raises(TypeError, match="name must be str or bytes"):
                get(name)
        with pytest.raises(ValueError, match="name must not be empty"):
            get("")
    asyncio.run(client.aclose())


@pytest.mark.parametrize("getter", GETTERS)
def test_the_same_name_gives_the_same_object(getter: str) -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")
    get = getattr(client, getter)
    assert get("k") is get("k")
    assert get("k") is not get(b"k")
    asyncio.run(client.aclose())


def test_a_number_of_permits_is_checked_although_true_equals_one() -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")
    client.get_semaphore("s", 1)
    with pytest.raises(TypeError):
        client.get_semaphore("s", True)
    asyncio.run(client.aclose())


def test_redis_py_is_not_imported_before_there_is_a_client() -> None:
    code = (
        "import sys, redisson_py; assert 'redis' not in sys.modules;"
        "redisson_py.Redisson.from_url('redis://127.0.0.1:1'); assert 'redis' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
