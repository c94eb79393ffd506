"""Owners: the client's id, and a number for each outermost acquisition.

No number is used twice, so nothing that arrives late can touch a newer hold. It begins with a zero:
of such holders, others know that their releases call the first client that waits. Redisson's
thread ids do not.
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
#: Refers to a task: not by `id()`, which is reused; not by a context variable, which child tasks
#: copy.
reference: Callable[[Task], TaskRef] = weakref.ref


class Left(Protocol):
    """A container with tasks as keys."""

    def leave(self, key: TaskRef, /) -> None: ...


class TaskKey(weakref.ref[Task]):
    """A reference to a task, the key of an entry that is removed when the task is collected.

    It is made with `leave` as its callback.
    """

    __slots__ = ("where",)

    where: Left

    def leave(self) -> None:
        """Remove the entry of a task that was garbage-collected."""
        self.where.leave(self)


#: Bytes of a client id that determine the others: so 16 bytes have room for a number as well.
_DISTINCT_BYTES = 10


def client_id_of(start: bytes) -> str:
    """Return the client id that begins with these ten bytes: a uuid, its last group a digest."""
    return str(uuid.UUID(bytes=start + hashlib.sha256(start).digest()[: 16 - _DISTINCT_BYTES]))


def numbered(client_id: str, number: int | str) -> str:
    """Return the owner with this number."""
    return f"{client_id}:0{number}"


class Owners:
    """The owners of one client: its id, and numbers that are never used twice.

    Attributes:
        prefix: The start of each owner; a number follows.
    """

    def __init__(self) -> None:
        self.renew()
        #: Returns the next number, greater than all before. Versions of changes use it too.
        self.new_number: Callable[[], int] = itertools.count(1).__next__

    def renew(self) -> None:
        """Take another client id, after a fork or when the client is opened again."""
        self.client_id: str = client_id_of(uuid.uuid4().bytes[:_DISTINCT_BYTES])
        self.prefix: str = numbered(self.client_id, "")

    def new_owner(self) -> str:
        """Return an owner that was never used before."""
        return self.prefix + str(self.new_number())
