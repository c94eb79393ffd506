"""What a workload is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.working import Worker

if TYPE_CHECKING:
    from tests.jepsen.field import Need

#: Options of the clients, as a rule. Nobody waits for ever, so that a worker comes to its end.
OPTIONS: Mapping[str, Any] = {"lease_time": 1.0, "acquire_timeout": 5.0}

#: The checkers of whatever can be waited for.
OF_LOCKS = ("no lost wake-up", "no deadlock", "no unexpected error", "leaks")


@dataclass(frozen=True)
class Workload:
    """One way in which workers use an object.

    Attributes:
        name: Its name on the command line.
        about: What it does, in a line.
        work: One section of one task; called again until the worker is to stop.
        checkers: The names of the checkers that judge its histories.
        objects: The names of what it uses, as a rule.
        options: Options of the clients.
        processes: How many workers it has.
        tasks: How many tasks each worker has.
        servers: How many independent servers each worker needs.
        topology: The only one on which it runs; empty for any.
        without: What its nemeses must not need.
        facts: What the checkers must know.
        threads: Whether its tasks may be threads.
        renewed: Whether the watchdog renews every lease until its release.
        last: Visits an object without a timeout: what each worker does once when all is well again,
            while the others do it too. None: its objects are gone by then.
    """

    name: str
    about: str
    work: Callable[[Worker], Awaitable[None]]
    checkers: tuple[str, ...]
    objects: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=lambda: dict(OPTIONS))
    processes: int = 4
    tasks: int = 2
    servers: int = 1
    topology: str = ""
    without: frozenset[Need] = frozenset()
    facts: Facts = field(default_factory=Facts)
    threads: bool = True
    renewed: bool = False
    last: Callable[[Worker, str], Awaitable[None]] | None = None
