"""The values that the arguments of an acquire and a release are made from."""

from __future__ import annotations

from typing import Protocol

from redisson_py._answers import Change
from redisson_py._options import TOMBSTONE
from redisson_py._redis.scripts.source import Arg, Script
from redisson_py._time import milliseconds

#: Milliseconds that Redisson assumes for the wait of a caller that gave no timeout.
REDISSON_WAIT_MS = 300_000

#: How long Redis remembers a request that may be repeated: tombstones, versions, receipts.
RECEIPT_MS = milliseconds(TOMBSTONE)

Command = tuple[Script, bytes]
"""A script, and its arguments."""

Receipted = tuple[Script, dict[str, Arg]]
"""A script that leaves a receipt, and its arguments without those of the receipt."""

_NEW = {"version": 0, "version_ms": 0}


def changed(change: Change | None) -> dict[str, int]:
    """Return the arguments that say which change of a live hold a request is."""
    if change is None:
        return _NEW
    return {"version": change.number, "version_ms": RECEIPT_MS if change.remembered else 0}


class AcquireValues(Protocol):
    """An acquire request, as far as its script needs to know it.

    Attributes:
        owner: The owner that asks.
        field: The name that its hold will have in Redis.
        target: The hold count to reach, or the number of units.
        lease_ms: The lease in milliseconds.
        once: It does not wait, so Redis need not remember it.
        change: Which change of a live hold it is; None for the request of a new owner.
        checks: It is refused if the user may not do what a release needs.
        client: Its client's name in the queue of clients, which it joins if it has to wait; for a
            fair lock the name under which it waits, if that is not its owner; or nothing.
        yields: 1, it lets the first of that queue go first, because its client has just released;
            -1, it may go first by chance, because it waits and cannot stand in that queue;
            0, neither.
        compares: The server says if what the request names is not what is there; see `Disagrees`.
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
    def change(self) -> Change | None: ...
    @property
    def checks(self) -> bool: ...
    @property
    def compares(self) -> bool: ...
    @property
    def client(self) -> bytes: ...
    @property
    def yields(self) -> int: ...
    @property
    def wait_ms(self) -> int:
        """How long it may wait in a queue in Redis, in milliseconds; 0: its time is not limited."""
        ...


class Field(Protocol):
    """A hold, as far as its scripts need to know it.

    Attributes:
        owner: Its owner.
        batch: The owner of the request that brought it, perhaps together with others; of a fair
            lock the name under which a late copy of that request may enter the queue, if any.
        field: Its name in Redis.
        units: The number of its units, for a hold of a semaphore; else 1.
    """

    @property
    def owner(self) -> str: ...
    @property
    def batch(self) -> str | None: ...
    @property
    def field(self) -> bytes: ...
    @property
    def units(self) -> int: ...
