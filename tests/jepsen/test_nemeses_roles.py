"""What nemeses do to topologies really happens, and all is healthy when they have ended."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from redisson_py import Redisson
from redisson_py.testing import EmbeddedServer
from tests.jepsen.field import Field
from tests.jepsen.fields import field_for, strike, strikes, striking, work
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(900)


async def roles(field: Field) -> list[EmbeddedServer]:
    """Return the masters, in an order of their own."""
    return sorted(await field.masters(), key=lambda server: server.port)


def has_done_more(client: Redisson, done: int) -> bool:
    """Return whether a client has acquired anything since."""
    return client.statistics().acquires > done


async def change(field: Field, folder: Path, names: tuple[str, ...]) -> None:
    """Have each nemesis replace a master while a client works."""
    async with work(field) as client:
        for name in names:
            before = {each.address for each in await roles(field)}
            await strike(field, name)
            # What was recorded, not what is: on a busy machine Sentinel may replace it again.
            assert strikes(folder)[-1].value not in {*before, None}, name
            done = client.statistics().acquires
            await until(partial(has_done_more, client, done))
    assert [op.rid for op in strikes(folder) if not op.err] == [*names]


async def test_sentinel_replaces_the_master(tmp_path: Path) -> None:
    names: tuple[str, ...] = ("sentinel-kill", "sentinel-freeze", "sentinel-failover")
    async with field_for(tmp_path, *names, topology="sentinel") as field:
        if field.topology.version >= (9, 0, 0):
            names += ("sentinel-coordinated",)
        await change(field, tmp_path, names)
        async with striking(field, "sentinel-away"):
            await until(lambda: not all(each.running for each in field.topology.sentinels))
        assert all(each.running for each in field.topology.sentinels)


async def test_a_master_hands_over_or_is_replaced_by_hand(tmp_path: Path) -> None:
    names = ("handover", "promote")
    async with field_for(tmp_path, *names, topology="replicas") as field:
        await change(field, tmp_path, names)


async def test_masters_and_slots_of_a_cluster_change(tmp_path: Path) -> None:
    names = ("cluster-failover", "cluster-takeover", "cluster-kill", "cluster-freeze")
    async with field_for(tmp_path, *names, topology="cluster") as field:
        await change(field, tmp_path, names)
        for name in ("migrate", "migrate-atomic"):
            before = await field.topology.master_of("plain-1")
            await strike(field, name)
            assert await field.topology.master_of("plain-1") is not before
        await field.heal()
        # Healing has brought the slot home.
        assert len(await roles(field)) == 3


async def test_servers_freeze_and_nobody_takes_over(tmp_path: Path) -> None:
    async with field_for(tmp_path, "hesitate", topology="replicas") as field:
        before = await roles(field)
        for name in ("hesitate", "replica-freeze"):
            async with striking(field, name):
                await until(lambda: any(each.paused for each in field.servers))
            assert not any(each.paused for each in field.servers)
        assert await roles(field) == before
