"""The state machine: random lifecycles of one kind of thing, checked after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
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
LEASE_TIME = st.one_of(st.none(), st.none(), SHORT, st.just(60.0))
MISHAP: st.SearchStrategy[Mishap] = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.integers(1, 4), st.booleans()),
    st.integers(1, 12),
    st.just("lost reply"),
)
ACQUIRE_MISHAP: st.SearchStrategy[Mishap] = st.one_of(MISHAP, MISHAP, st.just("refused"))
WHERE = st.sampled_from(["own", "own", "own", "elsewhere", "elsewhere", "dropped", "cancelled"])
MEDDLING = ["straggle", "cancel wait", "let end", "force release", "delete", "end task", "cut"]
HOW = st.sampled_from(["end", "break", "error"])
#: Seconds, for any step; only a hang takes longer.
LONGEST_STEP = 60.0

T = TypeVar("T")
Step = Callable[[Actor], Coroutine[Any, Any, None]]


class Lifecycle(RuleBasedStateMachine):
    """Drives five tasks of two clients.

    Class attributes:
        kind: The name of the subject.
        url: The server.
        loop: What runs the steps.
        failures: What was found, in order.
        without: Names of rules that do nothing, to look for what they hide.
    """

    kind = "lock"
    url = ""
    runner: asyncio.Runner
    failures: list[BaseException]
    without: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.failed = False
        self.turns = 0
        self.beside: asyncio.Task[None] | None = None
        self.ending = "leave"
        self.world = Play(SUBJECTS[self.kind], self.url)
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

    def step(self, name: str, step: Step, who: int = 0) -> None:
        """Have an idle actor carry out a step, and check what must hold after it.

        Rules have no preconditions: what is there depends on the clock, and what is drawn must not.
        """
        idle = self.world.idle()
        if not idle or name in self.without:
            return

        async def checked() -> None:
            actor = idle[who % len(idle)]
            self.world.begin_step(name, actor)
            if self.turns and self.beside is None:
                self.world.racing = True
                self.beside = asyncio.create_task(step(actor))
                while self.turns:
                    self.turns -= 1
                    await asyncio.sleep(0)
                return
            await step(actor)
            await self.join()
            await checks.check(self.world)

        self.run(checked())

    async def join(self) -> None:
        """Wait for the step that goes on beside another."""
        beside, self.beside = self.beside, None
        if beside is not None:
            await beside
        self.world.racing = False

    def side(self, place: int) -> str:
        return self.subject.sides[place % len(self.subject.sides)]

    def lease_time(self, lease_time: float | None) -> float | None:
        return lease_time if self.subject.takes_lease_time else None

    def units(self, units: int) -> int:
        return min(units, self.subject.most_units)

    @initialize(ending=st.sampled_from(["leave", "leave", "close"]))
    def choose_ending(self, ending: str) -> None:
        self.ending = ending

    @rule(
        who=PLACE,
        side=PLACE,
        lease_time=LEASE_TIME,
        units=st.integers(1, 2),
        over=st.sampled_from(["bare", "hold", "shared", "lease"]),
        stack=st.booleans(),
        mishap=ACQUIRE_MISHAP,
    )
    def enter(
        self,
        who: int,
        side: int,
        lease_time: float | None,
        units: int,
        over: str,
        stack: bool,
        mishap: Mishap,
    ) -> None:
        options = (self.side(side), self.lease_time(lease_time), self.units(units))
        self.step(
            f"enter {over}",
            lambda actor: self.world.enter(actor, *options, over=over, stack=stack, mishap=mishap),
            who,
        )

    @rule(who=PLACE, side=PLACE, lease_time=LEASE_TIME, once=st.booleans(), mishap=ACQUIRE_MISHAP)
    def acquire(
        self, who: int, side: int, lease_time: float | None, once: bool, mishap: Mishap
    ) -> None:
        options = (self.side(side), self.lease_time(lease_time), 1)
        self.step(
            "acquire",
            lambda actor: self.world.acquire(actor, *options, once=once, mishap=mishap),
            who,
        )

    @rule(which=PLACE, where=WHERE, who=PLACE, how=HOW, mishap=MISHAP)
    def leave(self, which: int, where: str, who: int, how: str, mishap: Mishap) -> None:
        """Leave a block: in its own task, in another, by forgetting it, or by a cancellation."""
        world = self.world
        grip = newest(world.open_blocks(), which)
        if grip is None or grip.block is None:
            return
        own = world.entered_by(grip)
        if where == "own" and own is not None and own.idle and world.is_clear(grip, own):
            self.step("leave", lambda _: world.leave(grip, own, how, mishap))
        elif where == "elsewhere" and world.idle():
            by = world.idle()[who % len(world.idle())]
            if world.is_clear(grip, by):
                self.step("leave elsewhere", lambda _: world.leave(grip, by, how, mishap))
        elif where == "dropped" and not grip.block.stacked:
            self.step("drop", lambda _: world.drop(grip))
        elif where == "cancelled" and own is not None and own.idle:
            self.step("cancel body", lambda _: world.cancel_body(own))

    @rule(which=PLACE, who=PLACE, mishap=MISHAP)
    def release_lease(self, which: int, who: int, mishap: Mishap) -> None:
        """Release by a handle: one that is held, lost, or released already."""
        grip = newest(self.world.grips, which)
        if grip is not None:
            work = partial(self.world.release_lease, grip, mishap=mishap)
            self.step("release lease", work, who)

    @rule(who=PLACE, side=PLACE, mishap=MISHAP)
    def release_own(self, who: int, side: int, mishap: Mishap) -> None:
        if self.kind != "permit_expirable_semaphore":
            work = partial(self.world.release_own, side=self.side(side), mishap=mishap)
            self.step("release own", work, who)

    @rule(which=PLACE, who=PLACE, seconds=st.one_of(SHORT, st.just(60.0)), mishap=MISHAP)
    def extend(self, which: int, who: int, seconds: float, mishap: Mishap) -> None:
        grip = newest(self.world.grips, which)
        if grip is not None:
            work = partial(self.world.extend, grip, seconds=seconds, mishap=mishap)
            self.step("extend", work, who)

    @rule(what=st.sampled_from(MEDDLING), which=PLACE, who=PLACE, side=PLACE)
    def meddle(self, what: str, which: int, who: int, side: int) -> None:
        """Do what can be done of the following, beginning with `what`."""
        world, on = self.world, self.side(side)
        wait = newest(world.waits, which)
        possible: dict[str, tuple[object, Step]] = {
            "straggle": (world.late.commands, lambda _: world.straggle()),
            "cancel wait": (wait, lambda _: world.cancel_wait(wait)),
            "let end": (world.ending(), lambda _: world.let_end()),
            "force release": (
                world.held() and not self.subject.is_semaphore,
                lambda by: world.force_release(by, on),
            ),
            "delete": (world.held(), lambda _: world.delete()),
            "end task": (world.held(), world.end_task),
            "cut": (True, world.cut),
        }
        place = MEDDLING.index(what)
        for each in MEDDLING[place:] + MEDDLING[:place]:
            if possible[each][0] and each not in self.without:
                self.step(each, possible[each][1], who)
                return

    @rule(turns=st.integers(1, 6))
    def overlap(self, turns: int) -> None:
        """Have the next step get so many turns of the loop before the one after it begins."""
        self.turns = turns

    def teardown(self) -> None:
        try:
            if not self.failed:
                ending = self.world.leave_all if self.ending == "leave" else self.world.close_all
                self.run(self.join())
                self.run(ending())
                self.run(checks.check_end(self.world))
        finally:
            self.runner.run(self.world.close())


def newest(found: Sequence[T], place: int) -> T | None:
    """Return one of them; 0 is the newest. None, if there is none."""
    return found[-1 - place % len(found)] if found else None
