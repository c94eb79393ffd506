"""What each worker did, by its own account, and what the books therefore owe.

Every worker has a journal that nobody else writes: one line before each write to a book
("writing"), one after ("wrote"), each appended by one system call, which a SIGKILL cannot halve
or take back. The referee adds up what was wrote, and compares that with the books.

A "writing" without its "wrote" is in doubt: the worker died, or lost its lease, during the
write. A task in doubt makes no further booking, so the book can tell: it has the booking if
the task's last number in it is that one. (That rule would believe a book from which the booking
was wiped out. The demo does not depend on it: it kills and stops workers only where they have
told it that they are, which is never inside a write. The report says so if one is in doubt.)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from examples.demo.ledger import Book, Entry

Step = Literal["writing", "wrote"]


class Journal:
    """A worker's own account of its writes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, step: Step, store: str, entry: Entry) -> None:
        """Append a line."""
        row = json.dumps([step, store, *astuple(entry)]) + "\n"
        os.write(self._file, row.encode())

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Account:
    """The referee's finding on one book.

    Attributes:
        store: Which book: `file` or `key`.
        expected: What it owes, from the journals.
        actual: What it has.
        uncertain: Bookings of which only the book itself knows whether it got them.
    """

    store: str
    expected: Book
    actual: Book
    uncertain: int

    @property
    def lost(self) -> int:
        """Bookings that were made and are not there."""
        return self.expected.bookings - self.actual.bookings

    @property
    def correct(self) -> bool:
        """Whether the book has exactly what it owes."""
        return self.actual.agrees_with(self.expected)


def audit(journals: Iterable[Path], store: str, actual: Book) -> Account:
    """Return what the book in `store` should have, by the journals, beside what it has."""
    expected, uncertain = Book(), 0
    for path in journals:
        begun: dict[str, Entry] = {}
        for row in path.read_text(encoding="utf-8").splitlines():
            step, where, *fields = json.loads(row)
            if where != store:
                continue
            entry = Entry(*fields)
            if step == "writing":
                begun[entry.task] = entry
            else:
                del begun[entry.task]
                expected.post(entry)
        for entry in begun.values():
            uncertain += 1
            if actual.last.get(entry.task) == entry.number:
                expected.post(entry)
    return Account(store, expected, actual, uncertain)
