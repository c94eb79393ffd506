"""Trouble with the wall clocks of servers: steps, which a lease cannot bear, and a drift."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from redisson_py.testing import EmbeddedServer
from tests.jepsen.field import Field
from tests.jepsen.nemeses.clock_shim import Clock
from tests.jepsen.nemeses.nemesis import Nemesis

_HOUR = 3600.0
_DRIFT_PPM = 500


def _step(name: str, what: str, size: Callable[[float], float]) -> Nemesis:
    """Return a nemesis that sets a clock forward or back, and to the right time again."""

    async def strike(field: Field, chance: random.Random) -> None:
        server = chance.choice(field.servers)
        step = chance.choice([-1, 1]) * size(field.lease_time)
        await _set(name, field, server, chance, offset=step)

    return Nemesis(
        name,
        f"the wall clock of a server is {what} fast or slow for 0.2 to 3 leases",
        strike,
        breaks=frozenset({"clocks"}),
        needs=frozenset({"clock shim"}),
    )


async def _drift(field: Field, chance: random.Random) -> None:
    server = chance.choice(field.servers)
    ppm = chance.choice([-1, 1]) * _DRIFT_PPM
    # It ends with a step of at most 1.5 ms a second of lease: the clock is right again.
    await _set("clock-drift", field, server, chance, ppm=ppm)


async def _set(
    name: str,
    field: Field,
    server: EmbeddedServer,
    chance: random.Random,
    offset: float = 0.0,
    ppm: int = 0,
) -> None:
    clock = Clock(server)
    async with field.turn((server, "clock")):
        with field.struck(name, server.address, value=offset or ppm):
            clock.set(offset, ppm)
            try:
                await asyncio.sleep(chance.uniform(0.2, 3) * field.lease_time)
            finally:
                clock.set()


CLOCK_STEP = _step("clock-step", "a lease", lambda lease: lease)
CLOCK_HOUR = _step("clock-hour", "an hour", lambda lease: _HOUR)
CLOCK_DRIFT = Nemesis(
    "clock-drift",
    "the wall clock of a server gains or loses 500 ppm",
    _drift,
    needs=frozenset({"clock shim"}),
)
