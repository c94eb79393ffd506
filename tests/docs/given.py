"""What the Python blocks of the pages take as given: names that a reader has in his own service."""

from __future__ import annotations

import asyncio
import signal
import threading
import uuid
from collections import Counter
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import redisson_py
from redisson_py import Redisson


class Storage:
    """A resource that compares tokens, as docs/safety.md wants it."""

    def __init__(self) -> None:
        self.newest = 0
        self.written: list[object] = []

    async def write(self, row: object, *, token: int) -> None:
        """Write, unless a newer holder has written."""
        assert token >= self.newest, "a stale holder has written"
        self.newest = token
        self.written.append(row)


class Metric:
    """Stands for a counter or a histogram of a metrics library."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, ...]] = Counter()

    def labels(self, *labels: str) -> Any:
        """Return what counts for these labels."""

        def count(value: float = 1) -> None:
            self.seen[labels] += 1

        return SimpleNamespace(inc=count, observe=count)


class Celery:
    """Stands for an application of Celery: a task is its function."""

    @staticmethod
    def task(function: Any = None, **options: Any) -> Any:
        """Return the function, or what returns it."""
        return function or Celery.task


class Settings:
    """Stands for Django's settings: the names of the page."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return self._names[name]


def names(client: Redisson, url: str) -> dict[str, Any]:
    """Return the names, anew for each page."""
    found: dict[str, Any] = {
        "asyncio": asyncio,
        "asynccontextmanager": asynccontextmanager,
        "signal": signal,
        "threading": threading,
        "uuid": uuid,
        "redisson_py": redisson_py,
        "Redisson": Redisson,
        "client": client,
        "lock": client.get_lock("a lock"),
        "url": url,
        "storage": Storage(),
        "row": "a row",
        "WAITS": Metric(),
        "LOSSES": Metric(),
        "app": Celery(),
        "rows": ["a row"],
        "write": lambda row, token: None,
        "write_report": lambda lease: lease.check(),
        "call_command": lambda name: None,
    }
    found["settings"] = Settings(found)
    return found
