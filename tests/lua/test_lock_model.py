"""Whatever is asked in whatever order, the scripts answer as the model of a lock does."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Literal

import pytest

from tests.support.scripts.calls import A, B, Scripts
from tests.support.scripts.lock import LockScripts

Verb = Literal["acquire", "release", "undo"]
Step = tuple[Verb, str, int]

STEPS: tuple[Step, ...] = (
    ("acquire", A, 1),
    ("acquire", A, 2),
    ("release", A, 1),
    ("release", A, 0),
    ("undo", A, 0),
    ("acquire", B, 1),
    ("release", B, 0),
)
LENGTH = 4


@dataclass
class Model:
    """What the headers of the scripts promise."""

    holder: str | None = None
    count: int = 0
    gone: set[str] = field(default_factory=set)

    def take(self, step: Step) -> str:
        """Do a step; return what the caller is told."""
        verb, owner, holds = step
        return self.acquire(owner, holds) if verb == "acquire" else self.release(*step)

    def acquire(self, owner: str, holds: int) -> str:
        if self.holder == owner:
            self.count = max(self.count, holds)
        elif holds > 1:
            return "lost"
        elif self.holder is not None:
            return "busy"
        elif owner in self.gone:
            return "void"
        else:
            self.holder, self.count = owner, 1
        return "granted"

    def release(self, verb: Verb, owner: str, holds: int) -> str:
        if verb == "undo":
            self.gone.add(owner)
        if self.holder != owner:
            return "not the owner"
        self.count = min(self.count, holds)
        if self.count:
            return "still held"
        self.holder = None
        return "free"


async def really(lock: LockScripts, step: Step) -> str:
    """Do a step on the server; return what the caller is told."""
    verb, owner, holds = step
    if verb == "acquire":
        reply = await lock.acquire(owner, holds)
        return {None: "granted", -2: "lost", -3: "void"}.get(reply, "busy")
    reply = await (lock.undo(owner) if verb == "undo" else lock.release(owner, holds))
    return {None: "not the owner", 0: "still held"}.get(reply, "free")


@pytest.mark.parametrize("fenced", [False, True])
@pytest.mark.parametrize("start", STEPS, ids=str)
async def test_every_order_of_steps_is_answered_as_the_model_says(
    scripts: Scripts, fenced: bool, start: Step
) -> None:
    for number, steps in enumerate(itertools.product(STEPS, repeat=LENGTH - 1)):
        model = Model()
        lock = LockScripts(scripts, key=f"k{number}".encode(), fenced=fenced)
        replies = [(step, await really(lock, step)) for step in (start, *steps)]
        assert replies == [(step, model.take(step)) for step in (start, *steps)]
        expected = {} if model.holder is None else {model.holder: model.count}
        assert await lock.holds() == expected, replies
