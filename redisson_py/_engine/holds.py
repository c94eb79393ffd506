"""Which holds there are: the one list of a client.

A hold is in it from its grant until it is released or lost, whatever becomes of its task: also
while the local queue passes it on and no task has it, and after its task has ended. Everything that
asks which holds there are asks here: renewal, forced releases, closing, statistics, inspection.
Which of them a task has is another question, which `TaskHolds` answers.

A hold without units has nothing on the server, and is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redisson_py._engine.hold import Hold


class Holds:
    """All holds in force of one client; only its watchdog changes it.

    Attributes:
        first: The first hold on a key. Most keys never have another.
        more: Those that began while there was one, by their fields.
    """

    __slots__ = ("_others", "first", "more")

    def __init__(self) -> None:
        self.first: dict[bytes, Hold] = {}
        self.more: dict[bytes, dict[bytes, Hold]] = {}
        #: How many there are in `more`.
        self._others = 0

    def __len__(self) -> int:
        return len(self.first) + self._others

    def __iter__(self) -> Iterator[Hold]:
        yield from self.first.values()
        for others in self.more.values():
            yield from others.values()

    def __contains__(self, hold: Hold) -> bool:
        return self.find(hold.ownership.commands.key, hold.field) is hold

    def on(self, key: bytes) -> list[Hold]:
        """Return the holds on a key, of all kinds, oldest first."""
        first = [self.first[key]] if key in self.first else []
        return [*first, *self.more.get(key, {}).values()]

    def find(self, key: bytes, field: bytes) -> Hold | None:
        """Return the hold on a key that has this field on the server."""
        first = self.first.get(key)
        if first is not None and first.field == field:
            return first
        return self.more.get(key, {}).get(field)

    def add(self, hold: Hold) -> None:
        """Add a hold that begins."""
        key = hold.ownership.commands.key
        if key in self.first or key in self.more:
            self.more.setdefault(key, {})[hold.field] = hold
            self._others += 1
        else:
            self.first[key] = hold

    def remove(self, hold: Hold) -> None:
        """Remove a hold that is over."""
        key = hold.ownership.commands.key
        if self.first.get(key) is hold:
            del self.first[key]
            return
        others = self.more[key]
        del others[hold.field]
        self._others -= 1
        if not others:
            del self.more[key]

    def clear(self) -> None:
        """Remove all."""
        self.first.clear()
        self.more.clear()
        self._others = 0

    def check(self) -> None:
        """Raise `AssertionError` if an invariant does not hold; for tests."""
        assert len(list(self)) == len(set(self)) == len(self)
        assert all(self.more.values())
        assert all(hold in self for hold in self)
