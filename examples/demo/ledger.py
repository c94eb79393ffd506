"""The two shared books, and the unprotected read-modify-write on them.

Each booking moves money from one account to another. Both books are one JSON text, a ledger
file and the value of a Redis key, and are changed the naive way: read all, change, write all.
Between reading and writing others may do the same, and whoever writes last wipes out the rest.

A write is all or nothing (`os.replace`, one SET) and carries along the number of the last
booking of each task. So a worker that is killed leaves no half-written book, and the book
itself says which of a task's bookings it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

ACCOUNTS = ("bakery", "bookshop", "butcher", "cinema", "florist", "grocer", "museum", "pharmacy")


@dataclass(frozen=True, slots=True)
class Entry:
    """A booking: who made it, the how manyth of its task it is, and what is moved."""

    task: str
    number: int
    debit: str
    credit: str
    cents: int


@dataclass(slots=True)
class Book:
    """A ledger.

    Attributes:
        bookings: How many bookings it has.
        cents: How much they moved, in all.
        balances: What each account has; in all, zero.
        last: The number of each task's last booking.
    """

    bookings: int = 0
    cents: int = 0
    balances: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ACCOUNTS, 0))
    last: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str | bytes) -> Book:
        """Return the book that `to_text` wrote."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """Return the whole book as text."""
        return json.dumps(asdict(self))

    def post(self, entry: Entry) -> None:
        """Add a booking."""
        self.bookings += 1
        self.cents += entry.cents
        self.balances[entry.debit] -= entry.cents
        self.balances[entry.credit] += entry.cents
        self.last[entry.task] = entry.number

    def agrees_with(self, other: Book) -> bool:
        """Whether both have the same totals and balances."""
        return (self.bookings, self.cents, self.balances) == (
            other.bookings,
            other.cents,
            other.balances,
        )


class NotWrittenError(Exception):
    """Raised when a write was refused: the book is as it was."""


class Store(Protocol):
    """Where a book is kept."""

    name: str

    async def read(self) -> Book:
        """Return the book as it is now."""
        ...

    async def write(self, book: Book, ready: Callable[[], None], writer: str) -> None:
        """Replace the book; `ready` is called at the last moment and may raise to prevent it."""
        ...

    async def delete(self) -> None:
        """Throw the book away."""
        ...


class FileStore:
    """A book in a file. Its calls block the event loop: the file is small and local."""

    name = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self) -> Book:
        """Return the book as it is now."""
        return Book.from_text(self._path.read_text(encoding="utf-8"))

    async def write(self, book: Book, ready: Callable[[], None], writer: str) -> None:
        """Replace the file; see `Store`."""
        draft = self._path.with_name(f"{self._path.name}.{writer}")
        draft.write_text(book.to_text(), encoding="utf-8")
        ready()
        os.replace(draft, self._path)

    async def delete(self) -> None:
        """Delete the file."""
        self._path.unlink()


class KeyStore:
    """A book in a Redis key, through a plain client."""

    name = "key"

    def __init__(self, redis: Redis, key: str) -> None:
        self._redis = redis
        self._key = key

    async def read(self) -> Book:
        """Return the book as it is now."""
        text = await self._redis.get(self._key)
        if text is None:
            raise RuntimeError(f"somebody deleted {self._key}")
        return Book.from_text(text)

    async def write(self, book: Book, ready: Callable[[], None], writer: str) -> None:
        """Set the key; see `Store`."""
        text = book.to_text()
        ready()
        await self._redis.set(self._key, text)

    async def delete(self) -> None:
        """Delete the key."""
        await self._redis.delete(self._key)


def plain_client(url: str) -> Redis:
    """Return a plain client that sends a command once: a SET repeated later would be a late SET."""
    return Redis.from_url(url, retry=Retry(NoBackoff(), 0))


async def post(
    store: Store, entry: Entry, pause: Callable[[], Awaitable[None]], ready: Callable[[], None]
) -> None:
    """Add a booking to the book in `store`. Unprotected: somebody else may be doing the same.

    Args:
        store: Where the book is.
        entry: What to add.
        pause: Awaited between reading and writing.
        ready: Called just before the write; may raise to prevent it.
    """
    book = await store.read()
    await pause()
    book.post(entry)
    await store.write(book, ready, entry.task)
