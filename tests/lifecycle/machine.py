"""The state machine: random lifecycles of one kind of thing, checked after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.lifecycle import checks
from tests.lifecycle.actors import Actor
from tests.lifecycle.play import Play
from tests.lifecycle.records import Mishap
from tests.lifecycle.subjects import SUBJECTS

#: Chooses one of what is there, whatever the number.
PLACE = st.integers(0, 5)
SHORT = st.sampled_from([0.05, 0.2])
MISHAP: st.SearchStrategy[Mishap] = st.one_of(
    st.none(),
    st.none(),
    st.none(),
    st.tuples(st.integers(1, 4), st.booleans()),
    st.integers(1, 12),
    st.just("lost reply"),
    st.just("refused"),
)
#: Seconds, for any step; only a hang takes longer.
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
    over: str
    stack: bool
    once: bool
    how: str
    turns: int
    mishap: Mishap


DRAWS = st.builds(
    Draw,
    what=st.sampled_from(WANTED),
    who=PLACE,
    which=PLACE,
    side=PLACE,
    lease_time=st.one_of(st.none(), st.none(), SHORT, st.just(60.0)),
    seconds=st.one_of(SHORT, st.just(60.0)),
    units=st.integers(1, 2),
    over=st.sampled_from(["bare", "bare", "hold", "shared", "lease"]),
    stack=st.booleans(),
    once=st.booleans(),
    how=st.sampled_from(["end", "break", "error"]),
    turns=st.integers(1, 6),
    mishap=MISHAP,
)


class Lifecycle(RuleBasedStateMachine):
    """Drives five tasks of two clients.

    Class attributes:
        kind: The name of the subject.
        url: The server.
        options: More options of the clients.
        loop: The event loop that runs the steps.
        failures: The failures found, in order.
        without: Names of steps to leave out, to find what they hide.
    """

    kind = "lock"
    url = ""
    options: Mapping[str, Any] = {}
    runner: asyncio.Runner
    failures: list[BaseException]
    without: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.failed = False
        self.turns = 0
        self.beside: asyncio.Task[None] | None = None
        self.ending = "leave"
        self.spared = self.without
        self.world = Play(SUBJECTS[self.kind], self.url, self.options)
        self.subject = self.world.subject
        self.run(self.world.open())

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Carry out a step."""

        async def bounded() -> None:
            async with asyncio.timeout(LONGEST_STEP):
                await step

        try:
            self.runner.run(bounded())
        except BaseException as error:
            self.failed = True
            self.failures.append(error)
            error.add_note("played:\n  " + "\n  ".join(self.world.played))
            raise

    @initialize(
        ending=st.sampled_from(["leave", "leave", "close"]),
        spared=st.one_of(st.just(frozenset()), st.frozensets(st.sampled_from(NAMES[6:]))),
    )
    def begin(self, ending: str, spared: frozenset[str]) -> None:
        """Choose how the example ends, and which steps it leaves out."""
        self.ending = ending
        self.spared = spared | self.without

    @rule(draw=DRAWS)
    def play(self, draw: Draw) -> None:
        """Take one step.

        What can be done depends on the clock, and what is drawn must not: hence one rule, without
        a precondition, that takes the next step which is possible.
        """
        place = NAMES.index(draw.what)
        others = [name for name in NAMES[place:] + NAMES[:place] if name != "cut"]
        for name in [draw.what, *others]:
            if name not in self.spared and (step := self._step(name, draw)) is not None:
                self.run(self._taken(name, step))
                return

    async def _taken(self, name: str, step: Step) -> None:
        self.world.played.append(name)
        if self.turns and self.beside is None:
            self.world.racing = True
            self.beside = asyncio.create_task(step())
            while self.turns:
                self.turns -= 1
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
        beside, self.beside = self.beside, None
        if beside is not None:
            await beside
        self.world.racing = False

    async def _overlap(self, turns: int) -> None:
        """Give the next step this many turns of the loop before the one after it begins."""
        self.turns = turns

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
        if name == "overlap" and self.beside is None and not self.turns:
            return partial(self._overlap, draw.turns)
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
                "over": draw.over,
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

    def _actor(self, place: int) -> Actor | None:
        """Choose a task that can do something, those that hold something first."""
        holders = {grip.task for grip in self.world.held()}
        idle = sorted(self.world.idle(), key=lambda actor: actor.task not in holders)
        return idle[place % len(idle)] if idle else None

    def teardown(self) -> None:
        try:
            if not self.failed:
                ending = self.world.leave_all if self.ending == "leave" else self.world.close_all
                self.run(self._join())
                self.run(ending())
                self.run(checks.check_end(self.world))
        finally:
            self.runner.run(self.world.close())


def chosen(found: Sequence[T], place: int) -> T | None:
    """Return one of them, the newest first; None, if there is none."""
    return found[-1 - place % len(found)] if found else None
