"""The steps of lifecycles and their choice: of what was drawn, the next that is possible."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from tests.lifecycle import checks
from tests.lifecycle.actors import Actor
from tests.lifecycle.play import Play
from tests.lifecycle.records import Mishap

#: Seconds for any step; only a hang takes longer.
LONGEST_STEP = 60.0

#: The steps and their weights. Where a step is not possible, the next possible one is
#: taken instead, but never "cut".
STEPS = {
    "overlap": 2,
    "enter": 5,
    "leave": 4,
    "leave elsewhere": 2,
    "acquire": 4,
    "release lease": 3,
    "release own": 2,
    "extend": 4,
    "let end": 3,
    "straggle": 2,
    "drop": 1,
    "cancel body": 1,
    "cancel wait": 2,
    "force release": 1,
    "delete": 1,
    "end task": 1,
    "cut": 1,
}
NAMES = list(STEPS)
WANTED = [name for name, often in STEPS.items() for _ in range(often)]

T = TypeVar("T")
Step = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class Draw:
    """What was drawn for a step; each takes what it needs of it."""

    what: str
    who: int
    which: int
    side: int
    lease_time: float | None
    seconds: float
    units: int
    entered: str
    stack: bool
    once: bool
    how: str
    iterations: int
    mishap: Mishap


class Director:
    """Has the actors of a play take one step after another, and checks what comes of it.

    Attributes:
        ending: How it ends: the actors "leave" everything, or the clients "close".
        spared: Names of steps that are not taken.
    """

    def __init__(self, world: Play) -> None:
        self.world = world
        self.subject = world.subject
        self.ending = "leave"
        self.spared: frozenset[str] = frozenset()
        self._iterations = 0
        self._beside: asyncio.Task[None] | None = None

    async def play(self, draw: Draw) -> None:
        """Take one step.

        What can be done depends on the clock, and what is drawn must not: hence this takes the next
        step which is possible.
        """
        index = NAMES.index(draw.what)
        others = [name for name in NAMES[index:] + NAMES[:index] if name != "cut"]
        for name in [draw.what, *others]:
            if name not in self.spared and (step := self._step(name, draw)) is not None:
                await bounded(self._taken(name, step))
                return

    async def end(self) -> None:
        """End everything; fail if something is left."""
        ending = self.world.leave_all if self.ending == "leave" else self.world.close_all
        for step in (self._join, ending, partial(checks.check_end, self.world)):
            await bounded(step())

    async def _taken(self, name: str, step: Step) -> None:
        self.world.played.append(name)
        if self._iterations and self._beside is None:
            self.world.racing = True
            self._beside = asyncio.create_task(step())
            while self._iterations:
                self._iterations -= 1
                await asyncio.sleep(0)
            return
        await step()
        if name != "overlap":
            await self._join()
            await checks.check(self.world)
            for wait in self.world.waits:
                wait.may_go = False

    async def _join(self) -> None:
        """Wait for the step that goes on beside another."""
        beside, self._beside = self._beside, None
        if beside is not None:
            await beside
        self.world.racing = False

    async def _overlap(self, iterations: int) -> None:
        """Give the next step this many turns of the loop before the one after it begins."""
        self._iterations = iterations

    def _step(self, name: str, draw: Draw) -> Step | None:
        """Return a step, if it is possible."""
        if name in ("enter", "acquire", "release own", "force release", "end task", "cut"):
            return self._step_of_a_task(name, draw)
        if name in ("leave", "leave elsewhere", "drop", "cancel body"):
            return self._end_of_a_block(name, draw)
        world, by = self.world, self._actor(draw.who)
        grips = world.held() or world.grips if draw.who else world.grips
        grip, wait = chosen(grips, draw.which), chosen(world.waits, draw.which)
        if name == "release lease" and grip and by:
            return partial(world.release_lease, grip, by, draw.mishap)
        if name == "extend" and grip and by:
            return partial(world.extend, grip, by, draw.seconds, draw.mishap)
        if name == "cancel wait" and wait:
            return partial(world.cancel_wait, wait)
        if name == "let end" and world.ending():
            return world.let_end
        if name == "straggle" and world.late.commands:
            return world.straggle
        if name == "delete" and world.held():
            return world.delete
        if name == "overlap" and self._beside is None and not self._iterations:
            return partial(self._overlap, draw.iterations)
        return None

    def _step_of_a_task(self, name: str, draw: Draw) -> Step | None:
        world, subject, actor = self.world, self.subject, self._actor(draw.who)
        if actor is None:
            return None
        side = subject.sides[draw.side % len(subject.sides)]
        lease_time = draw.lease_time if subject.takes_lease_time else None
        units = min(draw.units, subject.most_units)
        if name == "enter":
            options: dict[str, Any] = {
                "entered": draw.entered,
                "stack": draw.stack,
                "mishap": draw.mishap,
            }
            return partial(world.enter, actor, side, lease_time, units, **options)
        if name == "acquire":
            once, mishap = draw.once, draw.mishap
            return partial(world.acquire, actor, side, lease_time, 1, once=once, mishap=mishap)
        if name == "release own" and subject.releases:
            return partial(world.release_own, actor, side, draw.mishap)
        if name == "force release" and world.held() and not subject.is_semaphore:
            return partial(world.force_release, actor, side)
        if name == "end task" and world.held():
            return partial(world.end_task, actor)
        return partial(world.cut, actor) if name == "cut" else None

    def _end_of_a_block(self, name: str, draw: Draw) -> Step | None:
        world, by = self.world, self._actor(draw.who)
        grip = chosen(world.open_blocks(), draw.which)
        if grip is None or grip.block is None or by is None:
            return None
        own = world.entered_by(grip)
        if own is not None and own.idle:
            if name == "leave" and world.is_clear(grip, own):
                return partial(world.leave, grip, own, draw.how, draw.mishap)
            if name == "cancel body":
                return partial(world.cancel_body, own)
        if name == "leave elsewhere" and by is not own and world.is_clear(grip, by):
            return partial(world.leave, grip, by, draw.how, draw.mishap)
        if name == "drop" and not grip.block.stacked:
            return partial(world.drop, grip)
        return None

    def _actor(self, index: int) -> Actor | None:
        """Choose a task that can do something, those that hold something first."""
        holders = {grip.task for grip in self.world.held()}
        idle = sorted(self.world.idle(), key=lambda actor: actor.task not in holders)
        return idle[index % len(idle)] if idle else None


async def bounded(step: Coroutine[Any, Any, None]) -> None:
    """Carry out a step that ends soon."""
    async with asyncio.timeout(LONGEST_STEP):
        await step


def chosen(found: Sequence[T], index: int) -> T | None:
    """Return one of them, the newest first; None, if there is none."""
    return found[-1 - index % len(found)] if found else None
