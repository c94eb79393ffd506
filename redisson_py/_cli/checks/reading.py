"""Reads the servers, each over a connection of its own. What is refused is left out, not guessed.

Permissions are checked by ACL DRYRUN, or by the commands of `probes`, one of which writes a key
that expires. Masters load our scripts into their cache. Nothing else is changed.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import replace

from redisson_py._cli.checks import probes
from redisson_py._cli.checks.asking import Target, Words, ask_all, gather
from redisson_py._cli.checks.discovery import read_all_sentinels, read_cluster, replicas_of
from redisson_py._cli.checks.facts import Clock, Facts, Sentinel, Server, read_info
from redisson_py._cli.commands.acl import permissions
from redisson_py._redis.dialect import Dialect
from redisson_py._redis.redis_py import Connector, ask_once
from redisson_py._redis.scripts import source
from redisson_py._redis.stream.handshake import MODERN_VERSION
from redisson_py._redis.topology.choice import fields
from redisson_py._time import now
from redisson_py.errors import BackendError, ConnectionLostError

#: The settings that the checks look at. CONFIG GET of Redis 6.2 takes one name.
SETTINGS = (
    "appendfsync",
    "client-output-buffer-limit",
    "cluster-node-timeout",
    "cluster-require-full-coverage",
    "min-replicas-to-write",
    "repl-timeout",
    "save",
    "stop-writes-on-bgsave-error",
    "tcp-keepalive",
    "timeout",
)
_SCRIPTS_OF = {True: Dialect.MODERN, False: Dialect.PLAIN}


async def read(target: Target) -> Facts:
    """Return what the servers say; those that do not answer have an error in their place."""
    servers, sentinels = target.servers, tuple[Sentinel, ...]()
    cluster = None
    connectors = [servers.connector]
    if servers.topology == "replicated":
        connectors = [servers.connector.at(*address) for address in servers.addresses]
    elif servers.topology == "sentinel":
        sentinels, connectors = await read_all_sentinels(target)
    elif servers.topology == "cluster":
        cluster, connectors = await read_cluster(target)
    found = await gather(connectors, lambda each: _read_server(each, target))
    if servers.topology in ("sentinel", "cluster"):
        replicas = replicas_of(found, cluster, target)
        others = await gather(replicas, lambda each: _read_server(each, target))
        found += [each if each.answered else replace(each, is_replica=True) for each in others]
    facts = Facts(
        servers.topology,
        servers.where,
        tuple(found),
        sentinels,
        cluster,
        lease_time=target.options.lease_time,
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
            # The trial and the first look report what is wrong.
            return server
        cached = None if isinstance(info, BackendError) else read_info(_text(info))
        count = (cached or {}).get("number_of_cached_scripts", "")
        return replace(
            server,
            clocks=server.clocks + clock,
            cached=int(count) if count.isdecimal() else None,
        )

    return replace(facts, servers=tuple(await gather(facts.servers, look)))


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
        info_reply, user_reply, *settings = await ask_all(connector, limit, questions)
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
        dialect = _SCRIPTS_OF[server.version[:1] >= (MODERN_VERSION,)]
        texts = [script.wordings[dialect].text for script in scripts]
        server = await _with_permissions(server, connector, target, texts[0], database)
        if server.is_replica:
            return server
        replies = await ask_all(connector, limit, [("SCRIPT", "LOAD", text) for text in texts])
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
    names = target.options.names
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
        replies = [first, *await ask_all(connector, target.limit, dry[1:])]
    else:
        asked = probes.tryable(asked)
        replies = await ask_all(connector, target.limit, list(asked.values()))
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
        *(() if target.options.client_name else ("client|setname",)),
        *(() if database else ("select",)),
    }
    return [name for name in needed if name not in unused]


def _is_sharded(server: Server, target: Target) -> bool:
    return (
        target.servers.topology == "cluster"
        and target.options.sharded_pubsub != "off"
        and server.version[:1] >= (MODERN_VERSION,)
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


async def _read_clock(connector: Connector, limit: float) -> tuple[Clock, ...]:
    asked, asked_at = time.time(), now()
    (reply,) = await ask_once(connector, limit, ("TIME",))
    answered, answered_at = time.time(), now()
    if isinstance(reply, BackendError):
        return ()
    seconds, microseconds = (int(part) for part in reply)
    return (Clock(seconds + microseconds / 1e6, asked, answered, asked_at, answered_at),)


def _text(reply: object) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else str(reply)
