"""Exactly the documented permissions, on clusters, replicas and Sentinel; and one command less.

What is refused is told by the call that needs it, at once, with the command and the server; never
with the user's name or password. Exceptions, as on one server: a client that may not listen logs
that and waits by the clock; one that may not ask for sharded pub/sub uses plain messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

import pytest
import pytest_asyncio

from redisson_py import (
    BackendError,
    ConnectionLostError,
    Redisson,
    ReplicationError,
    ScriptError,
)
from redisson_py._redis.topology.confirming import count_replicas
from redisson_py.errors import UnsupportedServerError
from redisson_py.testing import EmbeddedCluster, EmbeddedServer
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import documented_rules
from tests.fixtures.topologies import ReplicasFactory, SentinelFactory
from tests.primitives import test_one_slot
from tests.support.waiting import set_safety_poll, until, until_async
from tests.topology.sentinels import finder_of, listens

USER, PASSWORD = "exactly-th1s-user", "n0t-to-be-told"
KEY = "k"
CHANNEL = "redisson_lock__channel:{k}"

Allow = Callable[..., Awaitable[str]]


def as_user(url: str) -> str:
    """Return a URL for the user of these tests."""
    scheme, _, others = url.partition("://")
    return f"{scheme}://{USER}:{PASSWORD}@{others.rpartition('@')[2]}"


def less(rules: Iterable[str], missing: str) -> list[str]:
    """Return the rules without that for one command."""
    others = [rule for rule in rules if rule != f"+{missing}"]
    assert not missing or len(others) < len([*rules])
    return others


async def set_rules(servers: Iterable[EmbeddedServer], rules: Iterable[str]) -> None:
    """Set what the user of these tests may do, and forget what was refused before."""
    for server in servers:
        await server.execute("ACL", "SETUSER", USER, "reset", "on", f">{PASSWORD}", *rules)
        await server.execute("ACL", "LOG", "RESET")


async def refused(servers: Iterable[EmbeddedServer]) -> list[str]:
    """Return what was refused to the user of these tests.

    But for what redis-py sends by itself when it connects, and ignores the answer to.
    """
    found = [entry for server in servers for entry in await server.execute("ACL", "LOG")]
    entries = [dict(zip(entry[::2], entry[1::2], strict=True)) for entry in found]
    # Redis 6.2 names no subcommand.
    setinfo = ("client|setinfo", "client")
    return [e["object"] for e in entries if e["username"] == USER and e["object"] not in setinfo]


async def calls(servers: Iterable[EmbeddedServer], command: str) -> int:
    """Return how often servers have executed a command."""
    found = [str(await server.execute("INFO", "commandstats")) for server in servers]
    rows = [row for text in found for row in text.splitlines()]
    begin = f"cmdstat_{command}:calls="
    return sum(int(row[len(begin) :].split(",")[0]) for row in rows if row.startswith(begin))


async def final(awaitable: Awaitable[object], *words: str) -> BackendError:
    """Return the error of a call; fail if it is not final, says too little, or too much."""
    async with asyncio.timeout(30):
        with pytest.raises(BackendError) as caught:
            await awaitable
    assert not isinstance(caught.value, ConnectionLostError)
    text = f"{caught.value!r} {caught.value}"
    assert all(word in text for word in words), text
    assert USER not in text
    assert PASSWORD not in text
    return caught.value


@pytest.fixture
def sharded(cluster: EmbeddedCluster) -> bool:
    """Whether the cluster has sharded pub/sub."""
    return cluster.version >= (7, 0, 0)


@pytest.fixture
def rules(sharded: bool) -> tuple[str, ...]:
    """What a user of the cluster needs."""
    off = () if sharded else ("--sharded-pubsub=off",)
    return documented_rules("", "--cluster", "--sync", *off)


@pytest_asyncio.fixture
async def allow(cluster: EmbeddedCluster) -> AsyncIterator[Allow]:
    """Set what the user of these tests may do on all nodes; the answer is its URL."""

    async def on_all(*rules: str) -> str:
        await set_rules(cluster.nodes, rules)
        return as_user(cluster.url)

    yield on_all
    for node in cluster.nodes:
        await node.execute("ACL", "DELUSER", USER)


async def hand_over(client: Redisson, other: Redisson) -> None:
    """Wait for a lock that another client has, until that one releases it."""
    async with other.get_lock(KEY):
        waiting = asyncio.create_task(client.get_lock(KEY).acquire(timeout=20))
        await until(lambda: client._context.bus.table.seats > 0, 30)
        await until(lambda: heard(client), 30)
    await (await waiting).release()


def heard(client: Redisson) -> bool:
    """Return whether a waiter has its answer, and everything sent is answered."""
    streams = client._router.streams()
    return any(each.ready for each in streams) and not any(each.waiting for each in streams)


async def test_exact_permissions_are_enough_in_a_cluster(
    cluster: EmbeddedCluster,
    clients: ClientFactory,
    allow: Allow,
    rules: tuple[str, ...],
    sharded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every primitive, a slot that moves key by key, a failover; nothing is refused meanwhile."""
    url = await allow(*rules)
    monkeypatch.setattr(test_one_slot, "client_url", lambda _: url)
    # A waiter gets on by a message only, never by asking again.
    set_safety_poll(monkeypatch, 600)
    client = clients(url, lease_time=3, idle_lifetime=60, client_name="orders", sync_timeout=10)
    tours = test_one_slot.TOURS
    await asyncio.gather(*(tour(client, f"{tour.__name__}7") for tour in tours))
    # The default user of another client hears the same messages.
    other = clients(cluster.url, sync_timeout=10)
    for _ in range(2):
        await hand_over(client, other)
        await hand_over(other, client)
    assert await calls(cluster.nodes, "wait") > 0
    assert (await calls(cluster.nodes, "ssubscribe") > 0) == sharded

    # A lease that ends, because a node stood still, would end the move and the failover.
    async with client.get_lock(KEY).hold(lease_time=60) as lease:
        move = await cluster.begin_migration(KEY)
        await move.move_keys(*await move.keys())
        # A script with one key, which the target has: those of several wait until all have moved.
        assert await client.get_lock(KEY).locked()
        assert await calls([move.target], "asking") > 0
        await move.finish()
        await lease.extend(50)
        await cluster.failover(KEY)
        assert await client.get_lock(KEY).locked()
        await lease.extend(60)
    await hand_over(client, other)
    await hand_over(other, client)
    # Redis 6.2 refuses to say that it has no sharded pub/sub.
    asked_in_vain = set() if sharded else {"pubsub"}
    assert {*await refused(cluster.nodes)} <= asked_in_vain


@pytest.mark.parametrize("missing", ["cluster|slots", "wait", "spublish", "evalsha"])
async def test_a_missing_command_is_reported_at_once(
    missing: str,
    cluster: EmbeddedCluster,
    clients: ClientFactory,
    allow: Allow,
    rules: tuple[str, ...],
    sharded: bool,
) -> None:
    if missing == "spublish" and not sharded:
        pytest.skip("plain messages only")
    client = clients(await allow(*less(rules, missing)))
    where = (await cluster.master_of(KEY)).address
    words = [where] if missing != "cluster|slots" else ["Redis at 127.0.0.1:", "CLUSTER SLOTS"]
    if cluster.version >= (7, 2, 0) or (missing != "spublish" and cluster.version >= (7, 0, 0)):
        words.append(f"'{missing}'")
    error = await final(client.get_lock(KEY).acquire(timeout=60), *words)
    assert isinstance(error, UnsupportedServerError) == (missing == "wait")
    if missing == "spublish":
        # Refused before anything is granted that could not be released.
        assert isinstance(error, ScriptError)
        assert error.where == where


async def test_a_missing_asking_is_reported_at_once(
    cluster: EmbeddedCluster, clients: ClientFactory, allow: Allow, rules: tuple[str, ...]
) -> None:
    """The call behind it was sent back before, and back and forth until its time was up."""
    client = clients(await allow(*less(rules, "asking")))
    lock = client.get_lock(KEY)
    async with lock:
        move = await cluster.begin_migration(KEY)
        await move.move_keys(*await move.keys())
        error = await final(lock.inspect(), move.target.address, "asking")
        assert isinstance(error, ScriptError)
        assert error.where == move.target.address
        await move.finish()
        assert await lock.locked()


@pytest.mark.parametrize("missing", ["ssubscribe", "sunsubscribe", "pubsub|shardnumsub", "info"])
async def test_what_can_be_done_without(
    missing: str,
    cluster: EmbeddedCluster,
    clients: ClientFactory,
    allow: Allow,
    rules: tuple[str, ...],
    sharded: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not sharded and missing != "info":
        pytest.skip("plain messages only")
    set_safety_poll(monkeypatch, 0.3)
    monkeypatch.setattr("redisson_py._engine.bus.LINGER_SECONDS", 0.0)
    url = await allow(*less(rules, missing))
    client, other = (clients(url, sync_timeout=10) for _ in range(2))
    waits = await calls(cluster.nodes, "wait")
    await hand_over(client, other)
    # A client that may not ask the master for its replicas counts those of the map.
    assert await calls(cluster.nodes, "wait") > waits
    if missing == "info":
        return
    said = "refused sharded pub/sub" if "|" in missing else "cannot listen"
    await until(lambda: said in caplog.text)
    assert f"'{missing}'" in caplog.text
    assert USER not in caplog.text
    if "|" in missing:
        # Both hear plain messages.
        assert await calls(cluster.nodes, "publish") > 0


async def test_one_node_refuses_us(
    cluster: EmbeddedCluster, clients: ClientFactory, allow: Allow, rules: tuple[str, ...]
) -> None:
    """It is named, at once, and the others serve their keys."""
    url = await allow(*rules)
    master = await cluster.master_of(KEY)
    await master.execute("ACL", "SETUSER", USER, "off")
    client = clients(url)
    await final(client.get_lock(KEY).acquire(), f"Redis at {master.address}", "credentials")
    served = [name for name in "abcdefgh" if await cluster.master_of(name) is not master]
    async with client.get_lock(served[0]):
        pass


async def replica_counts(master: EmbeddedServer) -> None:
    """Return when a master's replica counts: from its first word, which may be a second away."""
    await master.execute("SET", "attached", "1", "PX", "1")

    async def heard_of() -> bool:
        return count_replicas(str(await master.execute("INFO", "replication"))) > 0

    await until_async(heard_of)


async def test_replicas_that_confirm(
    replicas_factory: ReplicasFactory, clients: ClientFactory
) -> None:
    servers = await replicas_factory(replicas=1, users={"unused": "off"})
    needed = documented_rules("", "--sync")
    await set_rules(servers.nodes, needed)
    await replica_counts(await servers.master())
    client = clients(as_user(servers.url), sync_timeout=10)
    async with client.get_lock(KEY):
        await servers.failover()
        assert await client.get_lock(KEY).locked()
    assert await calls(servers.nodes, "wait") > 0
    assert await refused(servers.nodes) == []

    await set_rules(servers.nodes, less(needed, "wait"))
    master = await servers.master()
    acquiring = clients(as_user(servers.url), sync_replicas=1).get_lock("other").acquire()
    error = await final(acquiring, master.address, "WAIT")
    assert isinstance(error, UnsupportedServerError)


async def test_sentinel(sentinel_factory: SentinelFactory, clients: ClientFactory) -> None:
    """The servers' user and that of the sentinels are two; a failover is followed."""
    needed = documented_rules("", "--sentinel")
    servers = await sentinel_factory(
        replicas=1,
        users={USER: f"on >{PASSWORD} {' '.join(documented_rules('', '--sync'))}"},
        sentinel_password="theirs",
        sentinel_users={USER: f"on >{PASSWORD} {' '.join(needed)}"},
    )
    url = as_user(servers.url.partition("?")[0])
    url += f"?sentinel_username={USER}&sentinel_password={PASSWORD}"
    await replica_counts(await servers.master())
    client = clients(url)
    async with client.get_lock(KEY) as lease:
        await until(lambda: listens(client))
        await servers.failover()
        await lease.extend(60)
        await until(lambda: finder_of(client).where != servers.nodes[0].address)
        assert await client.get_lock(KEY).locked()
    assert await calls(servers.nodes, "wait") > 0
    assert await refused([*servers.nodes, *servers.sentinels]) == []

    sentinels = ",".join(each.address for each in servers.sentinels)
    first, server = servers.sentinels[0].address, servers.nodes[0].address
    for right, wrong, expected in (
        (f"={PASSWORD}", "=wr0ng", f"Sentinel at {first} refused the credentials"),
        (url.partition("?")[2], "", f"Sentinel at {first}"),
        (f"/{servers.service}?", "/other?", f"Sentinel at {first} does not know 'other'"),
        (f":{PASSWORD}@", ":wr0ng@", f"Redis at {finder_of(client).where} refused the credentials"),
        (sentinels, server, f"the server at {server} is not a Sentinel"),
    ):
        await final(clients(url.replace(right, wrong)).ping(timeout=20), expected)

    for missing in ("sentinel|master", "sentinel|sentinels", "sentinel|get-master-addr-by-name"):
        await set_rules(servers.sentinels, less(needed, missing))
        word = missing if servers.version >= (7, 0, 0) else "sentinel"
        words = [f"Sentinel at {each.address}" for each in servers.sentinels]
        await final(clients(url).ping(), *words[:1], word)
    for others in (less(needed, "subscribe"), [rule for rule in needed if rule[0] != "&"]):
        await set_rules(servers.sentinels, others)
        await final(clients(url).ping(), "refuses the subscription to +switch-master")
    # PING is needed only where a Sentinel stays silent while a client waits.
    await set_rules(servers.sentinels, less(needed, "ping"))
    await clients(url).ping()


async def test_sentinels_count_replicas_when_the_master_may_not_be_asked(
    sentinel_factory: SentinelFactory, clients: ClientFactory
) -> None:
    rules = " ".join(less(documented_rules("", "--sync"), "info"))
    servers = await sentinel_factory(replicas=1, users={USER: f"on >{PASSWORD} {rules}"})
    client = clients(as_user(servers.url), sync_timeout=3)
    async with client.get_lock(KEY):
        pass
    assert await calls(servers.nodes, "wait") > 0
    master = await servers.master()
    (replica,) = [node for node in servers.nodes if node is not master]
    await servers.kill(replica)

    async def acquires() -> bool:
        try:
            async with client.get_lock(KEY):
                return True
        except ReplicationError:
            return False

    # They list it still, but say that they do not reach it.
    await until_async(acquires, 30)
    listed = await servers.sentinels[0].execute("SENTINEL", "REPLICAS", servers.service)
    assert len(listed) == 1
    waits = await calls([master], "wait")
    async with client.get_lock(KEY):
        pass
    assert await calls([master], "wait") == waits
