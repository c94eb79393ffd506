"""The scenes, one primitive each; `SCENES` has them in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from examples.tour.scenes import (
    barrier,
    decorator,
    fair_lock,
    fenced_lock,
    latch,
    lock,
    lost_lease,
    multi_lock,
    permit_semaphore,
    read_write_lock,
    red_lock,
    semaphore,
)
from examples.tour.stage import Stage


@dataclass(frozen=True, slots=True)
class Scene:
    """One primitive at work.

    Attributes:
        about: What it shows, in a line.
        play: Plays it.
    """

    about: str
    play: Callable[[Stage], Awaitable[None]]


_MODULES = (
    lock,
    lost_lease,
    fenced_lock,
    fair_lock,
    read_write_lock,
    semaphore,
    permit_semaphore,
    latch,
    barrier,
    multi_lock,
    red_lock,
    decorator,
)


SCENES = {
    module.__name__.rpartition(".")[2]: Scene(str(module.__doc__).strip().rstrip("."), module.scene)
    for module in _MODULES
}
