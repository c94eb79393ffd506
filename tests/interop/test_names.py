"""Odd names, and prefixes against Redisson's NameMapper: one lock, and wake-ups, for both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from redisson_py import Redisson
from redisson_py.testing import EmbeddedCluster
from tests.fixtures.client import ClientFactory
from tests.fixtures.java import RedissonFactory
from tests.interop.both_ways import BothWays
from tests.interop.java import Java, JavaObject
from tests.interop.kinds import LONG
from tests.interop.sides import PRIMITIVES, Primitive

pytestmark = pytest.mark.also("interop-cluster")

NAMES = (
    "{tag}x",
    "x{y}z",
    "a}b{c}d",
    "{}x",
    "{",
    "}",
    "two  words ",
    'it\'s "quoted" \\ back',
    "100%s *?[a-c]:$1",
    "line\nbreak\tand\0null",
    "grüße, слон, 象",
    "🐘🔒",
    "n" * 2000,
)
#: Of these, those whose keys a cluster has in several slots, and one that Redisson seeks elsewhere:
#: see test_cluster.py.
NOT_IN_CLUSTERS = ("{}x", "{", "}", "a}b{c}d")
PREFIX = "läden {1}: "
#: What both sides call the same, in their own ways.
MAPPED: tuple[tuple[Mapping[str, Any], str], ...] = (
    ({"prefix": "shop:"}, "shop:"),
    ({"prefix": PREFIX}, PREFIX),
    ({"name_mapper": lambda name: f"shop:{name}"}, "shop:"),
)


def primitives_of(cluster: EmbeddedCluster | None, name: str) -> dict[str, Primitive]:
    """Return those that may have a name there."""
    # A latch has a channel that ignores the name's own hash tag.
    odd = cluster is not None and bool({"{", "}"} & {*name})
    if cluster is not None and name in NOT_IN_CLUSTERS:
        return {}
    return {kind: each for kind, each in PRIMITIVES.items() if not (odd and kind == "latch")}


async def shared(
    client: Redisson, redisson: JavaObject, primitives: dict[str, Primitive], prefix: str
) -> None:
    """Have each side wait for what the other one holds."""
    both = await BothWays.made(client, redisson, primitives, prefix)
    await both.take_and_wait()
    await both.give_and_wake()
    for pair in both.pairs:
        if "semaphore" in pair.name or "permits" in pair.name:
            # Counters stay for ever.
            assert await client.get_semaphore(pair.name).delete()


@pytest.mark.usefixtures("only_messages")
@pytest.mark.parametrize("name", NAMES)
async def test_whatever_its_name_it_is_shared(
    name: str,
    clients: ClientFactory,
    redisson: JavaObject,
    session_cluster: EmbeddedCluster | None,
) -> None:
    primitives = primitives_of(session_cluster, name)
    await shared(clients(lease_time=LONG), redisson, primitives, f"{name} ")


@pytest.mark.usefixtures("only_messages")
@pytest.mark.parametrize(("options", "prefix"), MAPPED, ids=["plain", "braces", "mapper"])
async def test_whatever_its_prefix_it_is_shared(
    options: Mapping[str, Any],
    prefix: str,
    clients: ClientFactory,
    redissons: RedissonFactory,
    java: Java,
    session_cluster: EmbeddedCluster | None,
) -> None:
    primitives = primitives_of(session_cluster, prefix)
    if not java.since(3, 52):
        # It puts no prefix before the names of its queues.
        primitives.pop("fair lock")
    client = clients(lease_time=LONG, **options)
    redisson = await redissons(prefix=prefix)
    for name in ("k ", "{k} ") if session_cluster is None else ("k ",):
        await shared(client, redisson, primitives, name)


async def test_a_prefix_is_part_of_the_name(
    redissons: RedissonFactory, clients: ClientFactory
) -> None:
    prefixed = await (await redissons(prefix="shop:")).get("getLock", "k")
    await prefixed.call("lock")
    assert await clients(prefix="shop:").get_lock("k").locked()
    assert await clients().get_lock("shop:k").locked()
    assert not await clients().get_lock("k").locked()
    assert not await clients(prefix="shop:").get_lock("shop:k").locked()
    await prefixed.call("unlock")
