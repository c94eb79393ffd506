"""What every kind of lock and semaphore asks Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from redisson_py._answers import Answer, Change
from redisson_py._redis.commands.client_queue import ClientQueue
from redisson_py._redis.commands.request import AcquireValues, Field
from redisson_py._redis.scripts.source import Script

if TYPE_CHECKING:
    from redisson_py._redis.commands.plain import PlainCalls


class RedisCommands(Protocol):
    """The scripts of one kind for one key: they pack arguments and decode answers.

    Attributes:
        kind: Its name for people.
        queues: Redis keeps a queue of the waiters.
        shares_lease: Other owners may shorten the expiry that keeps a hold in Redis, so each hold
            is checked.
        leaves_traces: A hold whose lease has ended stays in Redis until its owner removes it.
    """

    kind: str
    alone: int
    acquire_script: Script
    release_script: Script
    set_lease_script: Script
    renew_script: Script
    queues: bool
    shares_lease: bool
    leaves_traces: bool

    @property
    def key(self) -> bytes: ...
    @property
    def clients(self) -> ClientQueue | None:
        """The queue of the clients that wait for it, if there is one."""
        ...

    @property
    def channel(self) -> bytes:
        """Where releases are announced."""
        ...

    @property
    def plain(self) -> PlainCalls | None:
        """The calls of an uncontended pair, if they are packed in advance."""
        ...

    @property
    def options(self) -> tuple[float, ...]:
        """The arguments of the constructor after the key."""
        ...

    @property
    def renewal_keys(self) -> tuple[bytes, ...]: ...
    @property
    def renewal_values(self) -> dict[str, int]:
        """The arguments of a renewal beside the lease: equal for all of one client and script."""
        ...

    def wakes(self, message: int, /) -> int: ...
    def field(self, owner: str, /) -> bytes: ...
    def owner(self, field: bytes, /) -> str: ...
    def request_channel(self, owner: str) -> bytes: ...
    def acquire(self, request: AcquireValues) -> bytes: ...
    def answer(self, reply: object, request: AcquireValues) -> Answer: ...
    def release(
        self, hold: Field, target: int, lease_ms: int, late: bool, change: Change | None
    ) -> bytes: ...
    def undo(self, request: AcquireValues, late: bool, change: Change | None) -> bytes: ...
    def others(self, reply: int, hears: bool, /) -> int: ...
    def was_lost(self, reply: int | None) -> bool:
        """Return whether a final release did not find its hold in force."""
        ...

    def set_lease(self, hold: Field, lease_ms: int, change: Change | None) -> bytes: ...
