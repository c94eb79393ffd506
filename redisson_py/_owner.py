"""Owners: the client's id, and a number for each outermost acquisition.

No number is used twice, so nothing that arrives late can touch a newer hold.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
import weakref
from collections.abc import Callable
from typing import Protocol

from redisson_py._loop import Task

TaskRef = weakref.ref[Task]
#: How a task is referred to: not by `id()`, which is reused; not in a context variable, which
#: child tasks copy.
reference = weakref.ref[Task]


class Left(Protocol):
    """Where something is kept by task."""

    def leave(self, key: TaskRef, /) -> None: ...


class TaskKey(weakref.ref[Task]):
    """A reference to a task by which something is kept, until the task is gone.

    Made with `leave` as its callback.
    """

    __slots__ = ("where",)

    where: Left

    def leave(self) -> None:
        """The task is gone."""
        self.where.leave(self)


#: Bytes of a client id that tell the others: then an id of 16 bytes has room for a number.
_TELLING = 10


def client_id_of(start: bytes) -> str:
    """Return the client id whose first ten bytes these are: a uuid, its last group a digest."""
    return str(uuid.UUID(bytes=start + hashlib.sha256(start).digest()[: 16 - _TELLING]))


class Owners:
    """The owners of one client: its id, and numbers that are never used twice.

    Attributes:
        prefix: What an owner begins with; a number follows.
    """

    def __init__(self) -> None:
        self.renew()
        #: The next number; greater than all before. Versions of changes are such numbers too.
        self.new_number: Callable[[], int] = itertools.count(1).__next__

    def renew(self) -> None:
        """Take another client id: this is another client from now on, or another process."""
        self.client_id: str = client_id_of(uuid.uuid4().bytes[:_TELLING])
        self.prefix: str = self.client_id + ":"

    def new_owner(self) -> str:
        """Return an owner that was never used before."""
        return self.prefix + str(self.new_number())
