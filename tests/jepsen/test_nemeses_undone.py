"""A nemesis that is cancelled in the middle of its strike leaves nothing broken behind."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from redisson_py.testing import TopologyError
from tests.jepsen.field import Field
from tests.jepsen.fields import field_for, strike, strikes, work
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.topologies import PROVIDES
from tests.support.waiting import until

#: Those of one server that need neither a process of a worker nor the enclosure.
NAMES = sorted(
    name
    for name, each in NEMESES.items()
    if each.needs <= set(PROVIDES["single"]) - {"disk", "own network"}
    and name not in ("kill", "pause", "block", "cancel")
)
_SETTINGS = ("maxmemory", "maxmemory-policy", "lua-time-limit")


@pytest.mark.parametrize("name", NAMES)
async def test_nothing_is_left_of_a_strike(tmp_path: Path, name: str) -> None:
    async with field_for(tmp_path, name) as field:
        before = await settings(field)
        async with work(field) as client:
            task = asyncio.create_task(strike(field, name))
            await until(lambda: strikes(tmp_path) or task.done())
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            done = client.statistics().acquires
            await until(lambda: client.statistics().acquires > done)
        assert await settings(field) == before
        assert not any(link.faults for link in field.links)


async def settings(field: Field) -> list[object]:
    """Return what of a server a nemesis may change for a while."""
    (server,) = field.servers
    found = [await server.execute("CONFIG", "GET", name) for name in _SETTINGS]
    return [server.paused, *found, *sorted(await server.execute("ACL", "LIST"))]


async def test_all_is_well_again_whatever_was_broken(tmp_path: Path) -> None:
    """`heal` repairs also what no nemesis broke."""
    async with field_for(tmp_path, "cut", topology="replicas") as field:
        master, replica = field.servers
        await replica.pause()
        await master.kill()
        for link in field.links:
            link.proxy.black_hole()
        with pytest.raises(TopologyError):
            await field.topology.wait_healthy(0.1)
        await field.heal()
        assert master.running
        assert not replica.paused
        async with work(field) as client:
            await until(lambda: client.statistics().acquires > 10)
