"""Who is asking: the client's id, a number for each outermost acquisition, the current task.

An owner is the client id and a number that is never used twice, so nothing that arrives late
can touch a newer hold. Which hold a task has on a name is known here and nowhere else: keyed
by the task object, weakly. Not by `id()`, which is reused; not in a context variable, which
child tasks copy.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
import weakref
from typing import Generic, TypeVar

from redisson_py._loop import Task, task_or_none

TaskRef = weakref.ref[Task]

H = TypeVar("H")
L = TypeVar("L")


#: Bytes of a client id that tell the others: then an id of 16 bytes has room for a number.
_TELLING = 10


def client_id_of(start: bytes) -> str:
    """Return the client id whose first ten bytes these are: a uuid, its last group a digest."""
    return str(uuid.UUID(bytes=start + hashlib.sha256(start).digest()[: 16 - _TELLING]))


class TaskHolds(Generic[H, L]):
    """What one task holds.

    Attributes:
        task: The task, as the key it is found by.
        holds: Its hold on each key.
        entered: The leases of the `async with lock` blocks it is in, outermost first.
    """

    __slots__ = ("entered", "holds", "task")

    def __init__(self, task: TaskRef) -> None:
        self.task = task
        self.holds: dict[bytes, H] = {}
        self.entered: list[L] = []


class Owners(Generic[H, L]):
    """The owners of one client and the tasks behind them."""

    def __init__(self) -> None:
        self.client_id = client_id_of(uuid.uuid4().bytes[:_TELLING])
        self._numbers = itertools.count(1)
        # A WeakKeyDictionary by hand: its lookup costs twice as much, at every acquire.
        self._tasks: dict[TaskRef, TaskHolds[H, L]] = {}

    def new_owner(self) -> str:
        """Return an owner that was never used before."""
        return f"{self.client_id}:{next(self._numbers)}"

    def of_current_task(self) -> TaskHolds[H, L]:
        """Return what the running task holds, to be read and changed."""
        tasks, task = self._tasks, task_or_none()
        if task is None:
            raise RuntimeError("this must be called from a task")
        found = tasks.get(weakref.ref(task))
        if found is None:
            key = weakref.ref(task, lambda gone: tasks.pop(gone, None))
            found = tasks[key] = TaskHolds(key)
        return found

    def known(self, task: TaskRef) -> TaskHolds[H, L] | None:
        """Return what a task holds, if it ever held anything and is still there."""
        return self._tasks.get(task)

    def forget(self, task: TaskRef, key: bytes, hold: H) -> None:
        """Take a hold from the task that had it, if it still has that one."""
        found = self._tasks.get(task)
        if found is not None and found.holds.get(key) is hold:
            del found.holds[key]
