"""What a nemesis is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from redisson_py.testing import EmbeddedServer, TopologyError
from tests.jepsen.checkers.verdict import Assumption
from tests.jepsen.field import Field, Need

Made = TypeVar("Made")


@dataclass(frozen=True)
class Nemesis:
    """One kind of trouble.

    Attributes:
        name: Its name on the command line.
        about: What it does, in a line.
        strike: Does it once, and undoes it; called again and again, with pauses. It must undo what
            it did also if it is cancelled.
        breaks: The assumptions that do not hold while it acts: checkers that rest on them then
            publish figures instead of a verdict.
        needs: What the field must have.
        pause: Seconds between two strikes: at least, at most.
    """

    name: str
    about: str
    strike: Callable[[Field, random.Random], Awaitable[None]]
    breaks: frozenset[Assumption] = frozenset()
    needs: frozenset[Need] = frozenset()
    pause: tuple[float, float] = field(default=(0.2, 1.0))


async def finish(work: Coroutine[Any, Any, Made]) -> Made:
    """Do what must not be left half done; a cancellation waits for its end."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def any_replica(field: Field, chance: random.Random) -> EmbeddedServer:
    """Return a server of a topology that answers and is no master.

    Raises:
        TopologyError: Other nemeses have left none.
    """
    masters = await field.topology.masters()
    awake = [each for each in field.servers if each.running and not each.paused]
    replicas = [each for each in awake if each not in masters]
    if not replicas:
        raise TopologyError("there is no replica now")
    return chance.choice(replicas)
