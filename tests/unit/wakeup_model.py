"""A model of a server with one lock, and of the ordered streams to it, for random schedules.

Nothing happens in it by itself: what arrives when is for the schedule to say. No timer helps,
so whoever waits must be woken as soon as the lock is free, or waits for ever.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Protocol

from hypothesis import strategies as st

from redisson_py._engine.wakeups import Table

CHANNEL = b"redisson_lock__channel:{k}"

#: What happens next: each number chooses among the moves that are possible then.
SCHEDULES = st.lists(st.integers(0, 2**16), min_size=10, max_size=50)


def random_schedule(seed: int) -> list[int]:
    """Return the same numbers for the same seed."""
    dice = random.Random(seed)
    return [dice.randrange(2**16) for _ in range(dice.randrange(100))]


class Asker(Protocol):
    """A task that wants the lock."""

    @property
    def state(self) -> str:
        """Where it is in its life; `asking` while an answer is due."""
        ...

    def answered(self, granted: bool) -> None:
        """Get the answer to a request."""
        ...


class Link:
    """One process's table and its stream: what is on its way in each direction."""

    def __init__(self, server: Server, table: Table) -> None:
        self.server = server
        self.table = table
        self.requests: deque[tuple[str, Asker | None]] = deque()
        self.unanswered: deque[tuple[str, Asker | None]] = deque()
        self.replies: deque[tuple[str, Asker | None, bool]] = deque()

    def send(self, word: str, asker: Asker | None) -> None:
        """Put a command on its way."""
        self.requests.append((word, asker))
        self.unanswered.append((word, asker))

    def receive(self) -> None:
        """Let the next reply or message arrive."""
        word, asker, granted = self.replies.popleft()
        if word == "message":
            self.table.message(CHANNEL, b"0")
            return
        self.unanswered.popleft()
        if word == "ask" and asker is not None:
            asker.answered(granted)

    def reconnect(self) -> None:
        """Lose all that is under way, subscribe again, wake everybody, repeat what counts."""
        again = [(w, who) for w, who in self.unanswered if w in ("ask", "release")]
        for way in (self.requests, self.replies, self.unanswered):
            way.clear()
        self.server.subscribers.discard(self)
        self.resubscribe()
        for word, asker in again:
            if word == "release" or (asker is not None and asker.state == "asking"):
                self.send(word, asker)

    def resubscribe(self) -> None:
        """Do what the table's user does about a new connection."""
        for _ in self.table.channels:
            self.send("subscribe", None)
        self.table.wake_all()


class Server:
    """A lock and the processes told of its releases."""

    def __init__(self) -> None:
        self.subscribers: set[Link] = set()
        self.holder: Asker | None = None

    def execute(self, link: Link) -> None:
        """Execute the next command of a stream."""
        word, asker = link.requests.popleft()
        granted = False
        if word == "subscribe":
            self.subscribers.add(link)
        elif word == "unsubscribe":
            self.subscribers.discard(link)
        elif word == "ask":
            self.holder = self.holder or asker
            granted = self.holder is asker
        elif self.holder is asker:
            self.holder = None
            for other in self.subscribers:
                other.replies.append(("message", None, False))
        link.replies.append((word, asker, granted))
