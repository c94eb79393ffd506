"""What every primitive needs of the client that made it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
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

    @contextmanager
    def waiting(self, line_key: bytes) -> Generator[None]:
        """Count the current task as a waiter."""
        self.waiters[line_key] += 1
        try:
            yield
        finally:
            self.waiters[line_key] -= 1
            if not self.waiters[line_key]:
                del self.waiters[line_key]
