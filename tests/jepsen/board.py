"""The board on which workers agree about what none of them can decide alone.

    post TOPIC WORD...      leave words
    take TOPIC              get the oldest word that nobody has taken, or nothing
    join TOPIC MEMBER       get the number of the round of a topic

A member that joins a second time begins a new round: it broke the last one, or it was killed and
has begun a new life.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field


@dataclass
class _Round:
    number: int = 0
    members: set[str] = field(default_factory=set)


class Board:
    """What was left on it."""

    def __init__(self) -> None:
        self._left: defaultdict[str, deque[str]] = defaultdict(deque)
        self._rounds: defaultdict[str, _Round] = defaultdict(_Round)

    def answer(self, word: str, topic: str, rest: list[str]) -> str:
        """Do what a worker asks for; return what to tell it."""
        match word, rest:
            case "post", words:
                self._left[topic].extend(words)
                return "ok"
            case "take", []:
                left = self._left[topic]
                return left.popleft() if left else ""
            case "join", [member]:
                return str(self._join(self._rounds[topic], member))
        raise ValueError(f"not a step: {word} {topic} {rest}")

    def _join(self, present: _Round, member: str) -> int:
        if member in present.members:
            present.number += 1
            present.members.clear()
        present.members.add(member)
        return present.number
