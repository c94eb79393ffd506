"""A sorted set: members in the order of their scores, and of their bytes where these are equal."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort


class SortedSet:
    """Members with scores.

    Attributes:
        scores: The score of each member; what it iterates over is in the order of insertion.
        rows: Score and member, in the order of the set.
    """

    __slots__ = ("rows", "scores")

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self.rows: list[tuple[float, bytes]] = []

    def __len__(self) -> int:
        return len(self.rows)

    def put(self, member: bytes, score: float) -> None:
        """Add a member, or change its score."""
        self.remove(member)
        self.scores[member] = score
        insort(self.rows, (score, member))

    def remove(self, member: bytes) -> bool:
        """Remove a member; return whether it was there."""
        score = self.scores.pop(member, None)
        if score is None:
            return False
        del self.rows[bisect_left(self.rows, (score, member))]
        return True

    def rank(self, member: bytes) -> int | None:
        """Return how many members are before one, or None if it is not there."""
        score = self.scores.get(member)
        return None if score is None else bisect_left(self.rows, (score, member))

    def between(self, low: tuple[float, bool], high: tuple[float, bool]) -> tuple[int, int]:
        """Return the places of the first member in a range of scores, and behind the last one.

        An end of the range is a score, and whether that score itself is left out.
        """
        return self._index(low[0], behind=low[1]), self._index(high[0], behind=not high[1])

    def _index(self, score: float, *, behind: bool) -> int:
        find = bisect_right if behind else bisect_left
        return find(self.rows, score, key=lambda row: row[0])
