"""What the arguments of an acquire and a release are made from."""

from __future__ import annotations

from typing import Protocol

#: Milliseconds that Redisson assumes for the wait of a caller that gave no timeout.
REDISSON_WAIT_MS = 300_000


class Wish(Protocol):
    """An acquire request, as far as its script needs to know it.

    Attributes:
        owner: Under which owner.
        field: What Redis will call its hold.
        target: The hold count to reach, or how many units.
        lease_ms: The lease in milliseconds.
        once: It does not wait, so Redis need not remember it.
        version: Of this change of a live hold; 0 for the request of a new owner.
        version_ms: How long Redis has to remember the version; 0: not at all.
    """

    @property
    def owner(self) -> str: ...
    @property
    def field(self) -> bytes: ...
    @property
    def target(self) -> int: ...
    @property
    def lease_ms(self) -> int: ...
    @property
    def once(self) -> bool: ...
    @property
    def version(self) -> int: ...
    @property
    def version_ms(self) -> int: ...
    @property
    def wait_ms(self) -> int:
        """How long it may wait, for a queue in Redis."""
        ...


class Field(Protocol):
    """A hold, as far as its scripts need to know it.

    Attributes:
        owner: Its owner.
        batch: The owner of the request that it came from, which may have brought others too.
        field: What Redis calls it.
    """

    @property
    def owner(self) -> str: ...
    @property
    def batch(self) -> str | None: ...
    @property
    def field(self) -> bytes: ...
