"""Finds the servers of a topology, and reads what Sentinels and nodes say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from redisson_py._addresses import Address, write_address
from redisson_py._cli.checks.asking import Target, ask_or_error, gather
from redisson_py._cli.checks.facts import Cluster, Sentinel, Server
from redisson_py._redis.redis_py import Connector
from redisson_py._redis.topology.choice import choose, fields, read_named, read_sentinels
from redisson_py._redis.topology.slots import SlotMap
from redisson_py.errors import BackendError


def replicas_of(
    masters: Sequence[Server], cluster: Cluster | None, target: Target
) -> list[Connector]:
    """Return how to reach the replicas of some masters."""
    known: Mapping[Address, tuple[Address, ...]] = {} if cluster is None else cluster.replicas
    listed = {write_address(*master): replicas for master, replicas in known.items()}
    found = [listed.get(each.where) or _named_by(each, target) for each in masters]
    return [target.servers.connector.at(*each) for addresses in found for each in addresses]


def _named_by(master: Server, target: Target) -> list[Address]:
    """Return where the replicas are that a master names: their IP addresses."""
    pairs = [(each.get("ip", ""), each.get("port", "")) for each in master.replicas]
    return [target.mapped(host, int(port)) for host, port in pairs if host and port.isdecimal()]


async def read_all_sentinels(target: Target) -> tuple[tuple[Sentinel, ...], list[Connector]]:
    """Return what all Sentinels say, and how to reach the master that they name."""
    servers = target.servers
    assert servers.sentinel is not None
    # Naming the connection would need one more permission there.
    settings = {k: v for k, v in servers.sentinel.settings.items() if k != "client_name"}
    connector = replace(servers.sentinel, settings=settings)
    about = servers.service
    words = ("MASTER", "GET-MASTER-ADDR-BY-NAME", "SENTINELS")
    questions = [("SENTINEL", word, about) for word in words]
    met: dict[Address, list[Any] | BackendError] = {}
    unmet = list(servers.addresses)
    while unmet:
        replies = await gather(
            unmet, lambda each: ask_or_error(connector.at(*each), target, questions)
        )
        met |= dict(zip(unmet, replies, strict=True))
        named = [read_sentinels(reply[2]) for reply in replies if isinstance(reply, list)]
        unmet = list({target.mapped(*each) for others in named for each in others} - met.keys())
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
        shown = write_address(*target.mapped(*master.address))
        sentinels.append(Sentinel(where, master=shown, fields=fields(reply[0])))
    chosen = choose(masters)
    if chosen is None:
        return tuple(sentinels), []
    return tuple(sentinels), [servers.connector.at(*target.mapped(*chosen.address))]


async def read_cluster(target: Target) -> tuple[Cluster, list[Connector]]:
    """Return the slots as the first node tells them, and how to reach the masters."""
    servers = target.servers
    errors: list[str] = []
    for address in servers.addresses:
        reply = await ask_or_error(servers.connector.at(*address), target, [("CLUSTER", "SLOTS")])
        error = reply if isinstance(reply, BackendError) else reply[0]
        if isinstance(error, BackendError):
            errors.append(f"{write_address(*address)}: {error}")
            continue
        try:
            slots = SlotMap.parse(error, address, target.options.address_map)
        except BackendError as problem:
            errors.append(f"{write_address(*address)}: {problem}")
            continue
        replicas = {each: slots.replicas[each] for each in slots.masters}
        connectors = [servers.connector.at(*each) for each in replicas or [address]]
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
