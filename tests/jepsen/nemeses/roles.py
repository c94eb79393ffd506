"""Trouble with roles: masters die or freeze until others take over, hand over, or lose replicas."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.jepsen.field import Field
from tests.jepsen.history import now
from tests.jepsen.nemeses.nemesis import Nemesis, any_replica, finish

#: What is done to a topology; returns the master that this made, or None.
Act = Callable[[Field, random.Random], Awaitable[Any]]
_NEWEST = (9, 0, 0)
#: Seconds until another master must be there.
_TAKEOVER_SECONDS = 20.0


def _on_topology(name: str, act: Act) -> Callable[[Field, random.Random], Awaitable[None]]:
    """Return a strike that waits for health at its end, when it is its turn.

    It records which master it made: while it waits for health, Sentinel may replace that one.
    """

    async def strike(field: Field, chance: random.Random) -> None:
        async with field.topology_alone(name) as is_to_strike:
            if not is_to_strike:
                return
            with field.struck(name) as result:
                if made := await act(field, chance):
                    result["value"] = made.address
                await field.topology.wait_healthy()

    return strike


async def _master(field: Field, chance: random.Random) -> tuple[EmbeddedServer, Any]:
    """Return a master, and what gives the next one when it has been replaced."""
    if isinstance(field.topology, EmbeddedCluster):
        key = field.some_key(chance)
        return await field.topology.master_of(key), (key,)
    return await field.topology.master(), ()


async def _kill_master(field: Field, chance: random.Random) -> Any:
    old, where = await _master(field, chance)
    try:
        await old.kill()
        return await field.topology.wait_master(*where, other_than=old, timeout=_TAKEOVER_SECONDS)
    finally:
        await finish(old.start())


async def _freeze_master(field: Field, chance: random.Random) -> Any:
    old, where = await _master(field, chance)
    await old.pause()
    try:
        new = await field.topology.wait_master(*where, other_than=old, timeout=_TAKEOVER_SECONDS)
        await asyncio.sleep(chance.uniform(0, 1) * field.lease_time)
        return new
    finally:
        await old.resume()


async def _hesitate(field: Field, chance: random.Random) -> None:
    """Freeze a master for less than the others take to replace it."""
    old, _ = await _master(field, chance)
    await old.pause()
    try:
        await asyncio.sleep(chance.uniform(0.1, 0.6))
    finally:
        await old.resume()


async def _freeze_replica(field: Field, chance: random.Random) -> None:
    replica = await any_replica(field, chance)
    await replica.pause()
    since = now()
    try:
        await asyncio.sleep(chance.uniform(0.1, 3) * field.lease_time)
    finally:
        field.record.note("frozen", replica.address, since=since)
        await replica.resume()


async def _lose_sentinel(field: Field, chance: random.Random) -> None:
    sentinel = chance.choice(field.topology.sentinels)
    try:
        await sentinel.kill()
        await asyncio.sleep(chance.uniform(0.1, 3) * field.lease_time)
    finally:
        await finish(sentinel.start())


async def _promote(field: Field, chance: random.Random) -> Any:
    replica = await any_replica(field, chance)
    await finish(field.topology.promote(replica))
    return replica


async def _take_over(field: Field, chance: random.Random) -> Any:
    how = chance.choice(["force", "takeover"])
    return await field.topology.failover(field.some_key(chance), how=how)


async def _move(field: Field, chance: random.Random) -> None:
    """Move a slot key by key; for a moment some keys are here and some there."""
    move = await field.topology.begin_migration(field.some_key(chance))
    try:
        await move.move_keys(*(await move.keys())[::2])
        await asyncio.sleep(chance.uniform(0, 0.5) * field.lease_time)
    finally:
        await move.finish()


def _nemesis(name: str, about: str, act: Act, need: Any, *, loses: bool = False) -> Nemesis:
    return Nemesis(
        name,
        about,
        _on_topology(name, act),
        breaks=frozenset({"data"} if loses else ()),
        needs=frozenset({need}),
        pause=(0.5, 2),
    )


SENTINEL_FAILOVER = _nemesis(
    "sentinel-failover",
    "SENTINEL FAILOVER",
    lambda field, chance: field.topology.failover(),
    "sentinel",
    loses=True,
)
SENTINEL_COORDINATED = _nemesis(
    "sentinel-coordinated",
    "SENTINEL FAILOVER COORDINATED, which loses nothing (Valkey 9)",
    lambda field, chance: field.topology.failover(coordinated=True),
    "sentinel",
)
SENTINEL_KILL = _nemesis(
    "sentinel-kill",
    "SIGKILL of the master, which comes back when Sentinel has replaced it",
    _kill_master,
    "sentinel",
    loses=True,
)
SENTINEL_FREEZE = _nemesis(
    "sentinel-freeze",
    "SIGSTOP of the master, which goes on when Sentinel has replaced it",
    _freeze_master,
    "sentinel",
    loses=True,
)
SENTINEL_AWAY = _nemesis(
    "sentinel-away", "SIGKILL of a sentinel, back after 0.1 to 3 leases", _lose_sentinel, "sentinel"
)
CLUSTER_FAILOVER = _nemesis(
    "cluster-failover",
    "CLUSTER FAILOVER, which loses nothing",
    lambda field, chance: field.topology.failover(field.some_key(chance)),
    "cluster",
)
CLUSTER_TAKEOVER = _nemesis(
    "cluster-takeover",
    "CLUSTER FAILOVER FORCE or TAKEOVER, which does not ask the master",
    _take_over,
    "cluster",
    loses=True,
)
CLUSTER_KILL = _nemesis(
    "cluster-kill",
    "SIGKILL of a master, which comes back when a replica has replaced it",
    _kill_master,
    "cluster",
    loses=True,
)
CLUSTER_FREEZE = _nemesis(
    "cluster-freeze",
    "SIGSTOP of a master, which goes on when a replica has replaced it",
    _freeze_master,
    "cluster",
    loses=True,
)
MIGRATE = _nemesis(
    "migrate",
    "the slot of a name in use moves to another master, key by key",
    lambda field, chance: finish(_move(field, chance)),
    "cluster",
)
MIGRATE_ATOMIC = _nemesis(
    "migrate-atomic",
    "the slot of a name in use moves to another master in one piece (Valkey 9)",
    lambda field, chance: finish(
        field.topology.migrate(field.some_key(chance), atomic=field.topology.version >= _NEWEST)
    ),
    "cluster",
)
HESITATE = _nemesis(
    "hesitate", "SIGSTOP of a master for less than it takes to replace it", _hesitate, "replicas"
)
REPLICA_FREEZE = _nemesis(
    "replica-freeze", "SIGSTOP of a replica for 0.1 to 3 leases", _freeze_replica, "replicas"
)
HANDOVER = _nemesis(
    "handover",
    "FAILOVER TO, which loses nothing",
    lambda field, chance: finish(field.topology.failover()),
    "handover",
)
PROMOTE = _nemesis(
    "promote", "REPLICAOF NO ONE, while the old master goes on", _promote, "handover", loses=True
)
