"""What is known of one owner in a store, and its requests in their order."""

from __future__ import annotations

from collections import deque
from typing import Any

from redisson_py import _answers
from redisson_py._loop import Future
from redisson_py._stores.requests import StoreCall


class Line:
    """The requests of one owner, and what is known of it.

    Attributes:
        name: The name that it asks for.
        calls: Those that wait, in order.
        working: A task sends them.
        token: The first fencing token of its hold; 0: it had none yet.
        kept: The store may have something of it: a hold, or a waiter.
        unsure: A request for a hold had no answer.
        renewing: The renewal under way that its hold is part of.
        rings: How often the store has rung for its name.
        busy: The last answer, if that was "busy", and the loop time at which it came.
    """

    __slots__ = ("busy", "calls", "kept", "name", "renewing", "rings", "token", "unsure", "working")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.calls: deque[StoreCall] = deque()
        self.working: bool = False
        self.token: int = 0
        self.kept: bool = False
        self.unsure: bool = False
        self.rings: int = 0
        self.renewing: Future[Any] | None = None
        self.busy: tuple[_answers.Busy, float] | None = None
