"""The simulated event loop: virtual time, order, crashes and pauses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.simulation.hosts import Host
from tests.simulation.loop import BEGIN, SimulatedLoop, StuckError


def simulate(live: Callable[[SimulatedLoop], Coroutine[Any, Any, None]], seed: int = 1) -> float:
    """Run something to its end; return how long it took in simulated time."""
    loop = SimulatedLoop(random.Random(seed))
    try:
        loop.run_until_complete(live(loop))
    finally:
        loop.close()
    return loop.time() - BEGIN


def test_nothing_of_a_crashed_host_runs() -> None:
    ran: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(2)
        finally:
            ran.append("finally")

    async def live(loop: SimulatedLoop) -> None:
        host = loop.add_host("h", 0.0)
        loop.start_on(host, work())
        loop.at(BEGIN + 1, loop.crash, host)
        await asyncio.sleep(5)
        assert ran == []
        for _, reference in loop.tasks:
            if (task := reference()) is not None:
                task._log_destroy_pending = False  # type: ignore[attr-defined]

    simulate(live)


def test_a_paused_host_goes_on_later() -> None:
    woke: list[float] = []

    async def work() -> None:
        await asyncio.sleep(2)
        woke.append(asyncio.get_running_loop().time() - BEGIN)

    def go_on(host: Host) -> None:
        host.paused = False

    async def live(loop: SimulatedLoop) -> None:
        host = loop.add_host("h", 0.0)
        loop.start_on(host, work())
        loop.at(BEGIN + 1, setattr, host, "paused", True)
        loop.at(BEGIN + 7, go_on, host)
        await asyncio.sleep(10)

    simulate(live)
    assert woke == [7]


def test_a_wait_for_nothing_is_noticed() -> None:
    async def live(loop: SimulatedLoop) -> None:
        await loop.create_future()

    with pytest.raises(StuckError):
        simulate(live)
