"""The calls of an uncontended pair are what the commands themselves would pack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from redisson_py._redis.commands.contract import RedisCommands
from redisson_py._redis.commands.lock import FairLockCommands, FencedLockCommands, LockCommands
from redisson_py._redis.commands.plain import plain_calls
from redisson_py._redis.commands.read_write_lock import ReadLockCommands, WriteLockCommands
from redisson_py._redis.commands.request import REDISSON_WAIT_MS
from redisson_py._redis.commands.semaphore import SemaphoreCommands

KINDS: list[Callable[[bytes], RedisCommands]] = [
    LockCommands,
    FencedLockCommands,
    lambda key: FairLockCommands(key, 30.0),
    ReadLockCommands,
    WriteLockCommands,
    lambda key: SemaphoreCommands(key, -1),
    lambda key: SemaphoreCommands(key, 5),
]
NAMES = [
    b"k",
    b"{",
    b"{tag}:k",
    b"a{tag}b{c}",
    b"}",
    b"100 %b %% %(key)s",
    b"\x01",
    b"\x02\x02",
    b"\x00\xff\r\n$3\r\nfoo",
    "Schlüssel".encode(),
    b"n" * 4096,
]
OWNERS = ["0:9", "0:10", "c2a2d3a4-0000-0000-0000-000000000000:123456789012345"]


class Values:
    """The request of a new owner that waits without a timeout, and its hold."""

    target, lease_ms, once, change, checks = 1, 30_000, False, None, False
    units, compares, client, yields = 1, False, b"", False
    wait_ms = REDISSON_WAIT_MS

    def __init__(self, commands: RedisCommands, owner: str) -> None:
        self.owner = self.batch = owner
        self.field = commands.field(owner)


@pytest.mark.parametrize("key", NAMES, ids=repr)
@pytest.mark.parametrize("owner", OWNERS)
def test_a_form_says_what_the_commands_say(key: bytes, owner: str) -> None:
    for kind in KINDS:
        commands = kind(key)
        plain, values = plain_calls(commands, 30.0), Values(commands, owner)
        field = values.field
        assert plain.acquire[len(field)](
            key, field
        ) == commands.acquire_script.head + commands.acquire(values)
        assert plain.release[len(field)](
            key, field
        ) == commands.release_script.head + commands.release(values, 0, 30_000, False, None)
