"""What `acl` prints is what services and operators need, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py import Redisson
from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.cli.holding import JAVA, one_of_each
from tests.cli.terminals import run
from tests.fixtures.redis_server import PASSWORD, documented_rules, url_of_user
from tests.support.command_line import invoke

#: Each command that looks, and one that changes.
LOOKS = (
    ("inspect", "fair"),
    ("inspect", "read"),
    ("inspect", "semaphore"),
    ("inspect", "semaphore:ids"),
    ("inspect", "barrier"),
    ("inspect", "pay"),
    ("locks",),
    ("top", "--once"),
)


def commands(*arguments: str) -> set[str]:
    words: list[str] = invoke("acl", *arguments).stdout.split()
    return {word[1:] for word in words if word.startswith("+")}


def test_operators_get_reads_that_services_do_not_need() -> None:
    more = commands("--operator") - commands()
    assert more == {"getrange", "hrandfield", "hscan", "pubsub|numsub", "scan"}
    assert commands("--operator", "--cluster") - commands("--cluster") == more


SHARDED = {"pubsub|shardnumsub", "spublish", "ssubscribe", "sunsubscribe"}


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (("--cluster",), {"asking", "cluster|slots", *SHARDED}),
        (("--cluster", "--sharded-pubsub=off"), {"asking", "cluster|slots"}),
        (("--sync",), {"wait"}),
    ],
)
def test_services_get_what_their_topology_needs(arguments: tuple[str, ...], more: set[str]) -> None:
    assert commands(*arguments) - commands() == more


def test_a_sentinel_gets_its_own_commands_only() -> None:
    assert commands("--sentinel") == {
        *("ping", "subscribe", "sentinel|master", "sentinel|sentinels"),
        "sentinel|get-master-addr-by-name",
    }
    for other in ("--cluster", "--sync", "--operator"):
        result = invoke("acl", "--sentinel", other)
        assert (result.exit_code, "cannot be combined" in result.stderr) == (2, True)


async def test_an_operator_may_look_at_everything_and_free_locks(
    own_server: EmbeddedServer,
) -> None:
    rules = documented_rules("svc:", "--operator")
    await own_server.execute("ACL", "SETUSER", "op", "on", f">{PASSWORD}", *rules)
    await own_server.execute("HSET", "another application's", "name", "x")
    await own_server.execute("HSET", "svc:java", JAVA, 1)
    url = url_of_user(own_server.url, "op")
    holder = Redisson.from_url(own_server.url, prefix="svc:")
    waiter = Redisson.from_url(own_server.url, prefix="svc:")
    others = Redisson.from_url(own_server.url).get_semaphore("others", 2)
    async with holder, waiter, others, one_of_each(holder, waiter):
        for look in LOOKS:
            result = await run(*look, "--url", url, "--prefix", "svc:")
            assert result.exit_code == 0, result.output
            assert "unknown" not in result.stdout
        whole = (await run("locks", "--url", url)).stdout
        top = await run("top", "--once", "--url", url)
        freed = await run("release", "--force", "--yes", "java", "--url", url, "--prefix", "svc:")
    assert freed.exit_code == 0, freed.output
    assert not await own_server.execute("EXISTS", "svc:java")
    # Without the prefix other keys are seen as well, but may not be read.
    assert "svc:lock" in whole
    assert "another" not in whole
    assert "others" not in whole + top.stdout
    assert top.exit_code == 0


async def test_an_operator_may_look_at_a_cluster(cluster: EmbeddedCluster) -> None:
    rules = documented_rules("", "--operator", "--cluster")
    for node in cluster.nodes:
        await node.execute("ACL", "SETUSER", "op", "on", f">{PASSWORD}", *rules)
    url = url_of_user(cluster.url, "op")
    try:
        async with Redisson.from_url(cluster.url, sync_replicas=0) as client:
            async with client.get_lock("k"):
                results: list[Any] = [
                    await run(*look, "--url", url)
                    for look in (("inspect", "k"), ("locks",), ("top", "--once"))
                ]
    finally:
        for node in cluster.nodes:
            await node.execute("ACL", "DELUSER", "op")
    assert [result.exit_code for result in results] == [0, 0, 0], results
    assert "0 connections" in results[0].stdout
