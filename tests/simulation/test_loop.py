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


def test_an_hour_passes_at_once() -> None:
    async def live(loop: SimulatedLoop) -> None:
        await asyncio.sleep(3600)

    assert simulate(live) == 3600


def test_callbacks_run_first_in_first_out() -> None:
    order: list[int] = []

    async def live(loop: SimulatedLoop) -> None:
        for number in range(100):
            loop.call_soon(order.append, number)
        await asyncio.sleep(1)

    simulate(live)
    assert order == list(range(100))


def test_the_seed_orders_timers_of_one_moment() -> None:
    def order_of(seed: int) -> list[int]:
        order: list[int] = []

        async def live(loop: SimulatedLoop) -> None:
            for number in range(5):
                loop.call_at(BEGIN + 1, order.append, number)
            await asyncio.sleep(2)

        simulate(live, seed)
        return order

    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(20)}) > 10


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
