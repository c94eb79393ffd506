"""What the arguments of an acquire and a release are made from."""

from __future__ import annotations

from typing import Protocol


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

    owner: str
    field: bytes
    target: int
    lease_ms: int
    once: bool
    version: int
    version_ms: int

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

    owner: str
    batch: str
    field: bytes
