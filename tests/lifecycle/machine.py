"""The state machine: random lifecycles of one kind of thing, checked after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.lifecycle import checks
from tests.lifecycle.actors import Actor
from tests.lifecycle.subjects import SUBJECTS
from tests.lifecycle.world import Grip, Mishap, World

#: Chooses one of what is there, whatever the number.
PLACE = st.integers(0, 5)
SHORT = st.sampled_from([0.05, 0.2])
LEASE_TIME = st.one_of(st.none(), st.none(), SHORT, st.just(60.0))
MISHAP: st.SearchStrategy[Mishap] = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.integers(1, 4), st.booleans()),
    st.just("lost reply"),
)
HOW = st.sampled_from(["end", "break", "error"])
LONGEST_STEP = 60.0


def has(wanted: Callable[[World], object]) -> Callable[[Any], Any]:
    """Let a rule run only where somebody can carry it out, on something."""

    def possible(machine: Lifecycle) -> bool:
        return bool(machine.world.idle() and wanted(machine.world))

    return precondition(possible)


class Lifecycle(RuleBasedStateMachine):
    """Drives five tasks of two clients.

    Class attributes:
        kind: The name of the subject.
        url: The server.
        loop: What runs the steps.
        without: Names of rules that do nothing, to look for what they hide.
    """

    kind = "lock"
    url = ""
    runner: asyncio.Runner
    without: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.failed = False
        self.ending = "leave"
        self.world = World(SUBJECTS[self.kind], self.url)
        self.subject = self.world.subject
        self.run(self.world.open())

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Carry out a step."""

        async def bounded() -> None:
            async with asyncio.timeout(LONGEST_STEP):
                await step

        try:
            self.runner.run(bounded())
        except BaseException:
            self.failed = True
            raise

    def step(self, name: str, step: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Carry out a step, unless it is switched off, and check what must hold after it."""
        if name in self.without:
            return

        async def checked() -> None:
            await step()
            await checks.check(self.world)

        self.run(checked())

    def actor(self, place: int) -> Actor:
        idle = self.world.idle()
        return idle[place % len(idle)]

    def side(self, place: int) -> str:
        return self.subject.sides[place % len(self.subject.sides)]

    def grip(self, place: int) -> Grip:
        """Choose an acquisition, the newest first."""
        return self.world.grips[-1 - place % len(self.world.grips)]

    def block(self, place: int) -> Grip:
        blocks = self.world.open_blocks()
        return blocks[-1 - place % len(blocks)]

    def lease_time(self, lease_time: float | None) -> float | None:
        return lease_time if self.subject.takes_lease_time else None

    def units(self, units: int) -> int:
        return min(units, self.subject.most_units)

    @initialize(ending=st.sampled_from(["leave", "leave", "close"]))
    def choose_ending(self, ending: str) -> None:
        self.ending = ending

    @has(lambda world: True)
    @rule(
        who=PLACE,
        side=PLACE,
        lease_time=LEASE_TIME,
        units=st.integers(1, 2),
        over=st.sampled_from(["bare", "hold", "shared", "lease"]),
        stack=st.booleans(),
        mishap=MISHAP,
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
        self.step(
            f"enter {over}",
            lambda: self.world.enter(
                self.actor(who),
                self.side(side),
                self.lease_time(lease_time),
                self.units(units),
                over=over,
                stack=stack,
                mishap=mishap,
            ),
        )

    @has(lambda world: True)
    @rule(who=PLACE, side=PLACE, lease_time=LEASE_TIME, once=st.booleans(), mishap=MISHAP)
    def acquire(
        self, who: int, side: int, lease_time: float | None, once: bool, mishap: Mishap
    ) -> None:
        lease_time = self.lease_time(lease_time)
        self.step(
            "acquire",
            lambda: self.world.acquire(
                self.actor(who), self.side(side), lease_time, 1, once=once, mishap=mishap
            ),
        )

    @has(World.open_blocks)
    @rule(which=PLACE, how=HOW, mishap=MISHAP)
    def leave(self, which: int, how: str, mishap: Mishap) -> None:
        """Leave a block in its own task, if that is idle."""
        grip = self.block(which)
        own = self.world.entered_by(grip.block) if grip.block is not None else None
        if own is not None and own.idle:
            self.step("leave", lambda: self.world.leave(grip, own, how, mishap))

    @has(World.open_blocks)
    @rule(which=PLACE, who=PLACE, how=HOW, mishap=MISHAP)
    def leave_elsewhere(self, which: int, who: int, how: str, mishap: Mishap) -> None:
        grip, by = self.block(which), self.actor(who)
        self.step("leave_elsewhere", lambda: self.world.leave(grip, by, how, mishap))

    @has(World.open_blocks)
    @rule(which=PLACE)
    def drop_generator(self, which: int) -> None:
        grip = self.block(which)
        if grip.block is not None and not grip.block.stacked:
            self.step("drop_generator", lambda: self.world.drop(grip))

    @has(lambda world: world.grips)
    @rule(which=PLACE, who=PLACE, mishap=MISHAP)
    def release_lease(self, which: int, who: int, mishap: Mishap) -> None:
        grip, by = self.grip(which), self.actor(who)
        self.step("release_lease", lambda: self.world.release_lease(grip, by, mishap))

    @has(lambda world: hasattr(world.targets[0][world.subject.sides[0]], "release"))
    @rule(who=PLACE, side=PLACE, mishap=MISHAP)
    def release_own(self, who: int, side: int, mishap: Mishap) -> None:
        actor, on = self.actor(who), self.side(side)
        if self.kind != "permit_expirable_semaphore":
            self.step("release_own", lambda: self.world.release_own(actor, on, mishap))

    @has(lambda world: world.grips)
    @rule(
        which=PLACE,
        who=PLACE,
        seconds=st.one_of(SHORT, st.just(60.0)),
        mishap=MISHAP,
    )
    def extend(self, which: int, who: int, seconds: float, mishap: Mishap) -> None:
        grip, by = self.grip(which), self.actor(who)
        self.step("extend", lambda: self.world.extend(grip, by, seconds, mishap))

    @has(lambda world: any(grip.own_end for grip in world.held()))
    @rule()
    def let_end(self) -> None:
        self.step("let_end", self.world.let_end)

    @has(lambda world: not world.subject.is_semaphore and world.held())
    @rule(who=PLACE, side=PLACE)
    def force_release(self, who: int, side: int) -> None:
        actor, on = self.actor(who), self.side(side)
        self.step("force_release", lambda: self.world.force_release(actor, on))

    @has(World.held)
    @rule()
    def delete(self) -> None:
        self.step("delete", self.world.delete)

    @precondition(lambda machine: machine.world.waits)
    @rule(which=PLACE)
    def cancel_wait(self, which: int) -> None:
        waits = self.world.waits
        wait = waits[which % len(waits)]
        self.step("cancel_wait", lambda: self.world.cancel_wait(wait))

    @has(World.open_blocks)
    @rule(who=PLACE)
    def cancel_body(self, who: int) -> None:
        actor = self.actor(who)
        if actor.blocks:
            self.step("cancel_body", lambda: self.world.cancel_body(actor))

    @has(World.held)
    @rule(who=PLACE)
    def end_task(self, who: int) -> None:
        actor = self.actor(who)
        self.step("end_task", lambda: self.world.end_task(actor))

    @precondition(lambda machine: machine.world.late.commands)
    @rule()
    def straggle(self) -> None:
        self.step("straggle", self.world.straggle)

    def teardown(self) -> None:
        try:
            if not self.failed:
                ending = self.world.leave_all if self.ending == "leave" else self.world.close_all
                self.run(ending())
                self.run(checks.check_end(self.world))
        finally:
            self.runner.run(self.world.close())
