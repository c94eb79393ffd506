"""The state machine: random lifecycles of one kind of thing, checked after every step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.lifecycle.director import NAMES, WANTED, Director, Draw, bounded
from tests.lifecycle.play import Play
from tests.lifecycle.records import Mishap

#: Chooses one of what is there, whatever the number.
INDEX = st.integers(0, 5)
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
DRAWS = st.builds(
    Draw,
    what=st.sampled_from(WANTED),
    who=INDEX,
    which=INDEX,
    side=INDEX,
    lease_time=st.one_of(st.none(), st.none(), SHORT, st.just(60.0)),
    seconds=st.one_of(SHORT, st.just(60.0)),
    units=st.integers(1, 2),
    entered=st.sampled_from(["bare", "bare", "hold", "shared", "lease"]),
    stack=st.booleans(),
    once=st.booleans(),
    how=st.sampled_from(["end", "break", "error"]),
    iterations=st.integers(1, 6),
    mishap=MISHAP,
)


class Lifecycle(RuleBasedStateMachine):
    """Drives five tasks of two clients.

    Class attributes:
        make: Makes the world of an example.
        loop: The event loop that runs the steps.
        failures: The failures found, in order.
        without: Names of steps to leave out, to find what they hide.
    """

    make: Callable[[], Play]
    runner: asyncio.Runner
    failures: list[BaseException]
    without: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.failed = False
        self.world = type(self).make()
        self.director = Director(self.world)
        self.director.spared = self.without
        self.run(bounded(self.world.open()))

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Carry out a step."""
        try:
            self.runner.run(step)
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
        self.director.ending = ending
        self.director.spared = spared | self.without

    @rule(draw=DRAWS)
    def play(self, draw: Draw) -> None:
        """Take one step: one rule, without a precondition, because time has a say in those."""
        self.run(self.director.play(draw))

    def teardown(self) -> None:
        try:
            if not self.failed:
                self.run(self.director.end())
        finally:
            self.runner.run(self.world.close())
