"""Runs the state machine on a server, a given number of times."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from tests.lifecycle.machine import Lifecycle
from tests.lifecycle.play import Play
from tests.lifecycle.subjects import SUBJECTS
from tests.lifecycle.surroundings import RealServers

STEPS = 35


@contextmanager
def _quiet() -> Iterator[None]:
    """Losses, and clients closed while they hold something, log warnings; they are expected."""
    log = logging.getLogger("redisson_py")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


def _loop_factory(uvloop: bool) -> Callable[[], asyncio.AbstractEventLoop]:
    if not uvloop:
        return asyncio.new_event_loop
    from uvloop import new_event_loop

    return new_event_loop


def run_lifecycles(
    kind: str,
    url: str,
    *,
    options: Mapping[str, Any] | None = None,
    examples: int,
    number: int | None = None,
    uvloop: bool = False,
    without: frozenset[str] = frozenset(),
    shrink: bool = True,
) -> None:
    """Play `examples` lifecycles of a kind on an empty server, the same for the same number.

    Raises:
        AssertionError: An invariant did not hold; the notes say after which steps.
    """

    def make() -> Play:
        return Play(SUBJECTS[kind], RealServers(url, options or {}))

    run_plays(make, examples=examples, number=number, uvloop=uvloop, without=without, shrink=shrink)


def run_plays(
    make: Callable[[], Play],
    *,
    examples: int,
    number: int | None = None,
    uvloop: bool = False,
    without: frozenset[str] = frozenset(),
    shrink: bool = True,
) -> None:
    """As `run_lifecycles`, in worlds of any making."""
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    how = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=number is None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    with asyncio.Runner(loop_factory=_loop_factory(uvloop)) as runner, _quiet():

        class Played(Lifecycle):
            pass

        Played.make, Played.runner, Played.without = staticmethod(make), runner, without
        Played.failures = []
        play = Played if number is None else seed(number)(Played)
        try:
            run_state_machine_as_test(play, settings=how)
        except Flaky as error:
            # The same steps did not fail again, because timing matters. It counts all the same.
            raise Played.failures[0] from error
