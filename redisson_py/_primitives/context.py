"""What every primitive needs of the client that made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from redisson_py._handoff import Lines
from redisson_py._lease.hold import Hold
from redisson_py._lease.lease import Lease
from redisson_py._lease.watchdog import Watchdog
from redisson_py._options import Options
from redisson_py._owner import Owners, TaskHolds
from redisson_py._scripts.executor import Executor
from redisson_py._wakeups.bus import Bus

Mine = TaskHolds[Hold, Lease]
"""What the current task holds."""


class Question(Protocol):
    """Something asked and not answered, which a closing client must take back."""

    def give_up(self, error: BaseException) -> None: ...


@dataclass(frozen=True, slots=True)
class Context:
    """The parts of one client that primitives are built on."""

    options: Options
    executor: Executor
    bus: Bus
    watchdog: Watchdog
    owners: Owners[Hold, Lease]
    lines: Lines
    check: Callable[[], None]
    """Raises `ClientClosedError` if the client must not be used now or here."""
    describe: Callable[[float], None]
    """Keeps the client's description in Redis fresh, for `inspect`."""
    database: str = ""
    """The server's address and the number of the database: where equal keys are one key."""
    asking: dict[Question, None] = field(default_factory=dict)
    waiters: Counter[bytes] = field(default_factory=lambda: Counter[bytes]())
    """How many tasks wait for something without standing in a line, by `_line_key`."""

    def waiting(self, line_key: bytes) -> Waiting:
        """Return a block in which the current task is counted as a waiter."""
        return Waiting(self.waiters, line_key)


class Waiting:
    """Counts one waiter more inside the block. No generator: every acquire comes by here."""

    __slots__ = ("_line_key", "_waiters")

    def __init__(self, waiters: Counter[bytes], line_key: bytes) -> None:
        self._waiters = waiters
        self._line_key = line_key

    def __enter__(self) -> None:
        self._waiters[self._line_key] = self._waiters.get(self._line_key, 0) + 1

    def __exit__(self, *_: object) -> None:
        left = self._waiters[self._line_key] - 1
        if left:
            self._waiters[self._line_key] = left
        else:
            self._waiters.pop(self._line_key)
