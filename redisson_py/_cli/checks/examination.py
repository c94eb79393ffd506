"""All checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from redisson_py._cli.checks import access, clocks, servers, topologies
from redisson_py._cli.checks.facts import Facts, Server
from redisson_py._cli.checks.finding import Finding, merge

_Result = Finding | Iterable[Finding] | None

#: Of each server that answers.
_OF_EACH: tuple[Callable[[Server, Facts], _Result], ...] = (
    servers.check_version,
    servers.check_role,
    access.check_permissions,
    servers.check_scripts,
    servers.check_eviction,
    servers.check_memory,
    servers.check_persistence,
    topologies.check_replicas,
    topologies.check_cluster_settings,
    servers.check_idle,
    servers.check_buffers,
    servers.check_settings,
)
#: Of all together.
_OF_ALL: tuple[Callable[[Facts], _Result], ...] = (
    topologies.check_masters,
    topologies.check_sentinels,
    topologies.check_cluster,
    clocks.check_clocks,
    access.check_latency,
    access.check_lock,
)


def examine(facts: Facts) -> list[Finding]:
    """Return what all checks say; servers of which one says the same share a finding."""
    found = [_at(server, access.check_connection(server, facts)) for server in facts.servers]
    for check in _OF_EACH:
        for server in facts.servers:
            if server.answered:
                found += [_at(server, each) for each in _flat(check(server, facts))]
    for whole in _OF_ALL:
        found += _flat(whole(facts))
    return merge(found)


def _at(server: Server, finding: Finding) -> Finding:
    return replace(finding, where=(server.where,))


def _flat(result: _Result) -> list[Finding]:
    if result is None:
        return []
    return [result] if isinstance(result, Finding) else list(result)
