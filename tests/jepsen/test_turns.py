"""Whose turn it is to strike a topology: each nemesis strikes once, then whoever finds it free."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from redisson_py.testing import TopologyError
from tests.jepsen.field import Field
from tests.jepsen.history import Recorder
from tests.jepsen.nemeses.roles import _on_topology
from tests.support.waiting import until


class Topology:
    """A topology whose strikes last until a test says that they are over.

    Attributes:
        done: The nemeses that were allowed to strike, in order.
        over: Set when strikes may end.
        fails: Whether a strike cannot do what it was told.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.over = asyncio.Event()
        self.fails = False

    async def wait_healthy(self) -> None:
        """Return at once."""
        if self.fails:
            raise TopologyError("another one struck")


class Strikes:
    """The strikes of some nemeses on one topology."""

    def __init__(self, folder: Path) -> None:
        self.topology = Topology()
        self._field = Field(Recorder(folder, "nemesis"), [], self.topology)
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, name: str) -> asyncio.Task[None]:
        """Have a nemesis want to strike."""

        async def act(*_: object) -> None:
            self.topology.done.append(name)
            await self.topology.over.wait()

        strike = _on_topology(name, act)(self._field, None)  # type: ignore[arg-type]
        self._tasks.append(asyncio.ensure_future(strike))
        return self._tasks[-1]

    async def end(self) -> None:
        """Let all strikes come to their end."""
        self.topology.over.set()
        await asyncio.gather(*self._tasks)
        self.topology.over.clear()


@pytest.fixture
async def strikes(tmp_path: Path) -> Strikes:
    """Strikes on a topology that nobody has struck."""
    return Strikes(tmp_path)


async def test_each_that_has_not_struck_waits_for_its_turn(strikes: Strikes) -> None:
    for name in ("kill", "freeze", "move"):
        strikes.begin(name)
    await until(lambda: strikes.topology.done == ["kill"])
    await strikes.end()
    assert strikes.topology.done == ["kill", "freeze", "move"]


async def test_one_that_has_struck_leaves_the_turn_to_others(strikes: Strikes) -> None:
    strikes.begin("kill")
    await strikes.end()
    strikes.begin("freeze")
    await until(lambda: strikes.topology.done == ["kill", "freeze"])
    # It ends though the other one lasts.
    await strikes.begin("kill")
    await strikes.end()
    assert strikes.topology.done == ["kill", "freeze"]
    # Nobody wants the turn now.
    strikes.begin("kill")
    await strikes.end()
    assert strikes.topology.done == ["kill", "freeze", "kill"]


async def test_a_strike_that_could_not_be_made_is_none(strikes: Strikes) -> None:
    strikes.topology.fails = True
    strikes.begin("kill")
    await strikes.end()
    strikes.topology.fails = False
    strikes.begin("freeze")
    strikes.begin("kill")
    await strikes.end()
    assert strikes.topology.done == ["kill", "freeze", "kill"]


async def test_one_that_is_cancelled_leaves_the_queue(strikes: Strikes) -> None:
    strikes.begin("kill")
    await strikes.end()
    strikes.begin("freeze")
    waiting = strikes.begin("move")
    await until(lambda: strikes.topology.done == ["kill", "freeze"])
    waiting.cancel()
    await asyncio.wait([waiting])
    strikes._tasks.remove(waiting)
    await strikes.end()
    strikes.begin("kill")
    await strikes.end()
    assert strikes.topology.done == ["kill", "freeze", "kill"]
