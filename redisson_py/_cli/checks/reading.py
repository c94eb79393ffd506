"""Reads the servers, each over a connection of its own. What is refused is left out, not guessed.

Nothing is changed: what a user may do is asked by ACL DRYRUN, or by the commands of `probes`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

import anyio

from redisson_py import Redisson
from redisson_py._addresses import Address, AddressMap, write_address
from redisson_py._cli.checks import probes
from redisson_py._cli.checks.facts import Clock, Cluster, Facts, Sentinel, Server, read_info
from redisson_py._cli.commands.acl import permissions
from redisson_py._cli.servers import Servers as NamedServers
from redisson_py._config.read import read_config
from redisson_py._dialect import Dialect
from redisson_py._redis import (
    Connector,
    Servers,
    ask_once,
    servers_from_target,
    servers_from_url,
)
from redisson_py._scripts import source
from redisson_py._stream.handshake import FIRST_MODERN
from redisson_py._time import now
from redisson_py._topology.choice import choose, fields, read_named, read_sentinels
from redisson_py._topology.slots import SlotMap
from redisson_py.errors import BackendError, ConnectionLostError

#: What the checks look at. Redis 6.2 takes one name a question.
SETTINGS = (
    "appendfsync",
    "client-output-buffer-limit",
    "cluster-node-timeout",
    "cluster-require-full-coverage",
    "min-replicas-to-write",
    "repl-diskless-sync-delay",
    "repl-timeout",
    "save",
    "tcp-keepalive",
    "timeout",
)
#: How many commands a server has the time limit for.
_ASKED_TOGETHER = 12
_SCRIPTS_OF = {True: Dialect.MODERN, False: Dialect.PLAIN}

Words = tuple[str, ...]
A = TypeVar("A")
B = TypeVar("B")


class Target(NamedTuple):
    """Where to read, and as whom.

    Attributes:
        servers: How to connect.
        client: A client of them, for its options; it is not used.
        limit: Seconds that a server has for a few answers, connecting included.
    """

    servers: Servers
    client: Redisson
    limit: float

    @property
    def address_map(self) -> AddressMap | None:
        """The user's map of addresses."""
        return self.client._options.address_map

    @property
    def confirms(self) -> Literal["auto"] | int:
        """How many replicas must confirm a grant."""
        return self.client._options.replicas_where(self.servers.topology)


def target_of(named: NamedServers, limit: float) -> Target:
    """Return where to read, from the options of the command line.

    Raises:
        click.UsageError: They name no servers, or what names them is not usable.
    """
    client = named.client()
    name = client._options.client_name
    if named.url is not None:
        return Target(servers_from_url(named.url, name), client, limit)
    assert named.config is not None
    servers, _ = read_config(named.config, ())
    return Target(servers_from_target(servers, name), client, limit)


async def read(target: Target) -> Facts:
    """Return what the servers say; those that do not answer have an error in their place."""
    servers, sentinels = target.servers, tuple[Sentinel, ...]()
    cluster = None
    connectors = [servers.connector]
    if servers.topology == "replicated":
        connectors = [servers.connector.at(*address) for address in servers.addresses]
    elif servers.topology == "sentinel":
        sentinels, connectors = await _read_sentinels(target)
    elif servers.topology == "cluster":
        cluster, connectors = await _read_cluster(target)
    found = await _all(connectors, lambda each: _read_server(each, target))
    if servers.topology == "sentinel":
        replicas = [each for master in found for each in _replicas_of(master, target)]
        found += await _all(replicas, lambda each: _read_server(each, target))
    facts = Facts(
        servers.topology,
        servers.where,
        tuple(found),
        sentinels,
        cluster,
        lease_time=target.client._options.lease_time,
        confirms=target.confirms,
    )
    return replace(facts, acl_options=_acl_options(facts, target))


async def read_again(facts: Facts, target: Target) -> Facts:
    """Return the facts with what only a second look shows: clocks, and scripts that are gone."""

    async def look(server: Server) -> Server:
        if not server.answered:
            return server
        connector = _connector_of(server, target)
        try:
            clock = await _read_clock(connector, target.limit)
            (info,) = await ask_once(connector, target.limit, ("INFO", "memory"))
        except BackendError:
            # The trial and the first look tell what is wrong.
            return server
        cached = None if isinstance(info, BackendError) else read_info(_text(info))
        count = (cached or {}).get("number_of_cached_scripts", "")
        return replace(
            server,
            clocks=server.clocks + clock,
            cached=int(count) if count.isdecimal() else None,
        )

    return replace(facts, servers=tuple(await _all(facts.servers, look)))


def _connector_of(server: Server, target: Target) -> Connector:
    connector = target.servers.connector
    if server.where == connector.where:
        return connector
    host, _, port = server.where.rpartition(":")
    return connector.at(host.strip("[]"), int(port))


async def _read_server(connector: Connector, target: Target) -> Server:
    limit, database = target.limit, int(connector.settings.get("db") or 0)
    questions: list[Words] = [
        ("INFO",),
        ("ACL", "WHOAMI"),
        *(("CONFIG", "GET", each) for each in SETTINGS),
    ]
    try:
        clocks = await _read_clock(connector, limit)
        info_reply, user_reply, *settings = await _ask(connector, limit, questions)
        info = None if isinstance(info_reply, BackendError) else read_info(_text(info_reply))
        refused = next((each for each in settings if isinstance(each, BackendError)), None)
        server = Server(
            connector.where,
            is_replica=(info or {}).get("role") == "slave",
            info=info,
            config=None
            if refused
            else {k: v for each in settings for k, v in fields(each).items()},
            config_refusal="" if refused is None else str(refused),
            user="" if isinstance(user_reply, BackendError) else _text(user_reply),
            clocks=clocks,
        )
        scripts = source.load_all()
        dialect = _SCRIPTS_OF[server.version[:1] >= (FIRST_MODERN,)]
        texts = [script.wordings[dialect].text for script in scripts]
        server = await _with_permissions(server, connector, target, texts[0], database)
        if server.is_replica:
            return server
        replies = await _ask(connector, limit, [("SCRIPT", "LOAD", text) for text in texts])
    except BackendError as error:
        away = isinstance(error, ConnectionLostError)
        return Server(connector.where, error=str(error), refused=not away, info=None, config=None)
    bad = next((str(each) for each in replies if isinstance(each, BackendError)), "")
    return replace(
        server,
        loaded=sum(not isinstance(each, BackendError) for each in replies),
        load_error=bad,
    )


async def _with_permissions(
    server: Server, connector: Connector, target: Target, script: str, database: int
) -> Server:
    names = target.client._options.names
    asked = probes.commands(
        _needed(server, target, database),
        names.key(f"redisson-py:doctor:{uuid.uuid4().hex}"),
        names.prefix,
        script,
        database,
    )
    user = server.user or str(connector.settings.get("username") or "default")
    dry = [("ACL", "DRYRUN", user, *words) for words in asked.values()]
    (first,) = await ask_once(connector, target.limit, dry[0])
    dry_run = not isinstance(first, BackendError)
    if dry_run:
        replies = [first, *await _ask(connector, target.limit, dry[1:])]
    else:
        asked = probes.tryable(asked)
        replies = await _ask(connector, target.limit, list(asked.values()))
    missing = probes.refusals(asked, replies)
    return replace(server, user=user, missing=missing, dry_run=dry_run)


def _needed(server: Server, target: Target, database: int) -> list[str]:
    """Return the commands that a client of this kind needs at a server."""
    cluster = target.servers.topology == "cluster"
    rules = permissions(
        cluster=cluster,
        sharded=_is_sharded(server, target),
        sync=target.confirms != 0,
    )
    needed = [rule[1:] for rule in rules if rule[0] == "+"]
    unused = {
        *(() if target.client._options.client_name else ("client|setname",)),
        *(() if database else ("select",)),
    }
    return [name for name in needed if name not in unused]


def _is_sharded(server: Server, target: Target) -> bool:
    return (
        target.servers.topology == "cluster"
        and target.client._options.sharded_pubsub != "off"
        and server.version[:1] >= (FIRST_MODERN,)
    )


def _acl_options(facts: Facts, target: Target) -> str:
    words: list[str] = []
    if facts.topology == "cluster":
        words.append("--cluster")
        if not any(_is_sharded(each, target) for each in facts.servers):
            words.append("--sharded-pubsub off")
    if facts.confirms != 0:
        words.append("--sync")
    return " ".join(words)


async def _ask(connector: Connector, limit: float, questions: Sequence[Words]) -> list[Any]:
    """Return the replies to many commands, as `ask_once`, which waits for each before the next.

    A server that is far away has the same time for every few of them.
    """
    replies: list[Any] = []
    for start in range(0, len(questions), _ASKED_TOGETHER):
        replies += await ask_once(connector, limit, *questions[start : start + _ASKED_TOGETHER])
    return replies


async def _read_clock(connector: Connector, limit: float) -> tuple[Clock, ...]:
    asked, asked_at = time.time(), now()
    (reply,) = await ask_once(connector, limit, ("TIME",))
    answered, answered_at = time.time(), now()
    if isinstance(reply, BackendError):
        return ()
    seconds, microseconds = (int(part) for part in reply)
    return (Clock(seconds + microseconds / 1e6, asked, answered, asked_at, answered_at),)


# Several servers.


def _replicas_of(master: Server, target: Target) -> list[Connector]:
    """Return how to reach the replicas that a master names."""
    mapped = target.address_map or _unmapped
    pairs = [(each.get("ip", ""), each.get("port", "")) for each in master.replicas]
    addresses = [mapped(host, int(port)) for host, port in pairs if host and port.isdecimal()]
    return [target.servers.connector.at(*address) for address in addresses]


async def _read_sentinels(target: Target) -> tuple[tuple[Sentinel, ...], list[Connector]]:
    """Return what all Sentinels say, and how to reach the master that they name."""
    servers, mapped = target.servers, target.address_map or _unmapped
    assert servers.sentinel is not None
    # Naming the connection takes a permission more there.
    settings = {k: v for k, v in servers.sentinel.settings.items() if k != "client_name"}
    connector = replace(servers.sentinel, settings=settings)
    about = servers.service
    words = ("MASTER", "GET-MASTER-ADDR-BY-NAME", "SENTINELS")
    questions = [("SENTINEL", word, about) for word in words]
    met: dict[Address, list[Any] | BackendError] = {}
    unmet = list(servers.addresses)
    while unmet:
        replies = await _all(unmet, lambda each: _asked(connector.at(*each), target, questions))
        met |= dict(zip(unmet, replies, strict=True))
        named = [read_sentinels(reply[2]) for reply in replies if isinstance(reply, list)]
        unmet = list({mapped(*each) for others in named for each in others} - met.keys())
    sentinels: list[Sentinel] = []
    masters = []
    for address, reply in met.items():
        where = write_address(*address)
        if isinstance(reply, BackendError):
            sentinels.append(Sentinel(where, str(reply)))
            continue
        refused = next((str(each) for each in reply if isinstance(each, BackendError)), "")
        master = None if refused else read_named(reply[0], reply[1], where)
        if master is None:
            sentinels.append(Sentinel(where, refused or f"it does not know {about!r}"))
            continue
        masters.append(master)
        place = write_address(*mapped(*master.address))
        sentinels.append(Sentinel(where, master=place, fields=fields(reply[0])))
    chosen = choose(masters)
    if chosen is None:
        return tuple(sentinels), []
    return tuple(sentinels), [servers.connector.at(*mapped(*chosen.address))]


async def _read_cluster(target: Target) -> tuple[Cluster, list[Connector]]:
    """Return the slots as the first node tells them, and how to reach all nodes."""
    servers = target.servers
    errors: list[str] = []
    for address in servers.addresses:
        reply = await _asked(servers.connector.at(*address), target, [("CLUSTER", "SLOTS")])
        error = reply if isinstance(reply, BackendError) else reply[0]
        if isinstance(error, BackendError):
            errors.append(f"{write_address(*address)}: {error}")
            continue
        try:
            slots = SlotMap.parse(error, address, target.address_map)
        except BackendError as problem:
            errors.append(f"{write_address(*address)}: {problem}")
            continue
        replicas = {write_address(*each): len(slots.replicas[each]) for each in slots.masters}
        nodes = [*slots.masters, *sorted(slots.nodes() - slots.masters)]
        connectors = [servers.connector.at(*each) for each in nodes or [address]]
        return Cluster("", _uncovered(slots.owners), replicas), connectors
    seeds = [servers.connector.at(*address) for address in servers.addresses]
    return Cluster("; ".join(errors)), seeds


def _uncovered(owners: Sequence[Address | None]) -> tuple[tuple[int, int], ...]:
    ranges: list[tuple[int, int]] = []
    for slot, owner in enumerate(owners):
        if owner is not None:
            continue
        if ranges and ranges[-1][1] == slot - 1:
            ranges[-1] = (ranges[-1][0], slot)
        else:
            ranges.append((slot, slot))
    return tuple(ranges)


async def _asked(
    connector: Connector, target: Target, questions: Sequence[Words]
) -> list[Any] | BackendError:
    try:
        return await ask_once(connector, target.limit, *questions)
    except BackendError as error:
        return error


async def _all(items: Sequence[A], work: Callable[[A], Coroutine[Any, Any, B]]) -> list[B]:
    """Return the results of one task for each of these, in their order."""
    results: dict[int, B] = {}

    async def one(n: int, item: A) -> None:
        results[n] = await work(item)

    async with anyio.create_task_group() as group:
        for n, item in enumerate(items):
            group.start_soon(one, n, item)
    return [results[n] for n in range(len(items))]


def _unmapped(host: str, port: int) -> Address:
    return host, port


def _text(reply: object) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else str(reply)
