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
