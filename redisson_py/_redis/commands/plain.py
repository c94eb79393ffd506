"""The two calls of an uncontended pair, packed in advance except for a key and a field.

Most acquisitions are by a new owner, of one unit, for the client's lease; most releases end such
a hold. These calls are patterns that all names of one length share. The commands themselves, which
cover every other case, make the patterns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from redisson_py._redis.commands.contract import RedisCommands
from redisson_py._redis.scripts.packing import CallForm
from redisson_py._time import milliseconds


@dataclass(frozen=True, slots=True)
class PlainCalls:
    """The patterns for one kind, length of key and lease.

    Attributes:
        acquire: Asks for one unit for a new owner that waits without a timeout.
        release: Ends the hold of an owner.
        lease_time: The lease in seconds.
    """

    acquire: CallForm
    release: CallForm
    lease_time: float


@dataclass(frozen=True, slots=True)
class _PlainRequest:
    """The request, and later the hold, of a new owner."""

    field: bytes
    lease_ms: int
    target: int = 1
    units: int = 1
    once: bool = False
    change: None = None
    checks: bool = False
    compares: bool = False
    client: bytes = b""
    yields: int = 0
    wait_ms: int = 0

    @property
    def owner(self) -> str:
        return self.field.decode()

    batch = owner


def plain_calls(commands: RedisCommands, lease_time: float) -> PlainCalls:
    """Return the patterns for commands and a client's lease."""
    key = commands.key
    return _plain_calls(type(commands), commands.options, len(key), b"{" in key, lease_time)


@lru_cache(maxsize=1024)
def _plain_calls(
    kind: Callable[..., RedisCommands],
    options: tuple[float, ...],
    key_length: int,
    tagged: bool,
    lease_time: float,
) -> PlainCalls:
    lease_ms = milliseconds(lease_time)

    def acquire(key: bytes, field: bytes) -> bytes:
        commands = kind(key, *options)
        return commands.acquire_script.head + commands.acquire(_PlainRequest(field, lease_ms))

    def release(key: bytes, field: bytes) -> bytes:
        commands, hold = kind(key, *options), _PlainRequest(field, lease_ms)
        return commands.release_script.head + commands.release(hold, 0, lease_ms, False, None)

    return PlainCalls(
        CallForm(acquire, key_length, tagged),
        CallForm(release, key_length, tagged),
        lease_time,
    )
