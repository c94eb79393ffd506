"""What a sabotage is, and who must catch it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.jepsen.plan import Plan


@dataclass(frozen=True)
class Change:
    """One text that is replaced.

    Attributes:
        file: Where.
        old: The text that is replaced; it occurs once in the file.
        new: What it is replaced by.
    """

    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the text of the file with the change in it.

        Raises:
            ValueError: It is not plain where the change belongs.
        """
        if (times := text.count(self.old)) != 1:
            raise ValueError(f"{self.old!r} occurs {times} times in {self.file}")
        return text.replace(self.old, self.new)

    @contextmanager
    def made(self, tree: Path) -> Iterator[None]:
        """Make it in a tree, for the time of a block."""
        path = tree / self.file
        text = path.read_text("utf-8")
        path.write_text(self.applied(text), "utf-8")
        try:
            yield
        finally:
            path.write_text(text, "utf-8")


@dataclass(frozen=True)
class Attack:
    """The checker of tests/jepsen that must catch a sabotage, and the plan under which it shows.

    Attributes:
        checker: Who must catch it.
        workload: What runs, again and again with the next seed, until it is caught.
        nemeses: What strikes.
        topology: The servers.
        seconds: Of each run.
        limit: Seconds of running in which it must be caught.
    """

    checker: str
    workload: str
    nemeses: tuple[str, ...] = ()
    topology: str = "single"
    seconds: float = 6.0
    limit: float = 60.0

    @property
    def plan(self) -> Plan:
        """The first run."""
        return Plan(self.workload, self.nemeses, self.topology, self.seconds, 1)


@dataclass(frozen=True)
class Seeds:
    """The worlds of tests/simulation, one of which must show a sabotage.

    Attributes:
        kind: What is simulated.
        first: The first seed; not zero where few show it.
        most: How many are tried.
    """

    kind: str
    first: int = 0
    most: int = 400


@dataclass(frozen=True)
class Mutant:
    """One sabotage.

    Attributes:
        name: What is done.
        promise: What does not hold any more.
        file: Where it is done.
        old: The text that is replaced; it occurs once in the file.
        new: What it is replaced by.
        tests: The tests that must catch it: files, or single tests of long files.
        jepsen: The checker that must.
        simulation: The seeds that must.
        also: What is done besides, where two places guard the same.
    """

    name: str
    promise: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    jepsen: Attack | None = None
    simulation: Seeds | None = None
    also: Change | None = None

    @property
    def changes(self) -> list[Change]:
        """All that is done."""
        first = Change(self.file, self.old, self.new)
        return [first] if self.also is None else [first, self.also]

    @contextmanager
    def made(self, tree: Path) -> Iterator[None]:
        """Make it in a tree, for the time of a block."""
        with ExitStack() as stack:
            for change in self.changes:
                stack.enter_context(change.made(tree))
            yield
