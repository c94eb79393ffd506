"""Checks of servers that stand in for each other: replicas, Sentinel, cluster.

The numbers are those of docs/topologies.md, "Settings of the servers".
"""

from __future__ import annotations

from collections.abc import Iterator

from redisson_py._cli.checks.facts import Facts, Server
from redisson_py._cli.checks.finding import Finding, hidden, ok, problem, warning
from redisson_py._keys import SLOTS

#: Milliseconds after which a silent server should count as gone.
_SHORTEST_DETECTION, _LONGEST_DETECTION = 2000, 5000
#: Seconds for which a replica may lag behind.
_MOST_LAG = 10
#: Seconds for which a replica that hangs is waited for.
_REPLICATION_TIMEOUT = 15


def check_masters(facts: Facts) -> Finding | None:
    """Say whether a list of servers has exactly one master."""
    if facts.topology != "replicated":
        return None
    masters = [each.where for each in facts.masters]
    if len(masters) == 1:
        return ok("master", f"{masters[0]} is the only master")
    if masters:
        found = f"{' and '.join(masters)} claim to be master: clients wait"
        return problem("master", found, "demote all but one (REPLICAOF)")
    return problem("master", "none of the servers is master", "promote one (REPLICAOF NO ONE)")


def check_replicas(server: Server, facts: Facts) -> Iterator[Finding]:
    """Say whether the replicas of a master follow it, and whether it writes without them."""
    if server.info is None:
        yield hidden("replicas", "replicas", "allow +info to see them")
        return
    if server.is_replica:
        if server.info.get("master_link_status") == "down":
            todo = "check the replica's log"
            yield warning("replicas", "a replica is not connected to its master", todo)
        return
    count, online = len(server.replicas), server.online
    late = max((int(each.get("lag", "0") or 0) for each in server.replicas), default=0)
    if count > online:
        found = f"{count - online} of {count} do not follow their master"
        yield warning("replicas", found, "check the replicas' logs")
    elif late > _MOST_LAG:
        found = f"one replica has been silent for {late} s"
        yield warning("replicas", found, "check the replicas and the network")
    elif count:
        yield ok("replicas", f"{count} online")
    elif facts.topology == "single":
        yield ok("replicas", "none: no lock can be acquired while the server is down")
    else:
        found = "none: no server takes over when the master fails"
        yield warning("replicas", found, "add a replica to each master")
    yield from _check_settings(server, facts, count, online)


def _check_settings(server: Server, facts: Facts, count: int, online: int) -> Iterator[Finding]:
    wanted = server.setting_number("min-replicas-to-write")
    if wanted is None:
        return
    if wanted > online:
        yield problem(
            "min-replicas",
            f"min-replicas-to-write {wanted}, but {online} online: the master refuses all writes",
            "add replicas, or lower it",
        )
    elif facts.topology == "sentinel" and count >= 2 and wanted == 0:
        yield warning(
            "min-replicas",
            "a master that is cut off still grants locks",
            "set min-replicas-to-write 1 and min-replicas-max-lag 2",
        )
    elif facts.topology == "sentinel" and count == 1 and wanted:
        yield warning(
            "min-replicas",
            f"min-replicas-to-write {wanted} with one replica: after a failover, no write succeeds",
            "CONFIG SET min-replicas-to-write 0, and use sync_replicas",
        )
    elif count:
        yield ok("min-replicas", f"min-replicas-to-write {wanted}")
    patience = server.setting_number("repl-timeout")
    if count and patience is not None:
        if patience > _REPLICATION_TIMEOUT:
            yield warning(
                "repl-timeout",
                f"the master counts a hanging replica as online for {patience} s",
                "CONFIG SET repl-timeout 15 and repl-ping-replica-period 5",
            )
        else:
            yield ok("repl-timeout", f"{patience} s")


def check_sentinels(facts: Facts) -> Iterator[Finding]:
    """Say whether the Sentinels agree, are enough, and notice a failure in time."""
    if facts.topology != "sentinel":
        return
    asked = [each for each in facts.sentinels if not each.error]
    for each in facts.sentinels:
        if each.error:
            level = warning if asked else problem
            todo = "check it; for its permissions, see `redisson-py acl --sentinel`"
            yield level("sentinel", f"{each.where}: {each.error}", todo)
    if not asked:
        return
    names = sorted({each.master for each in asked})
    total = 1 + max(each.number("num-other-sentinels") or 0 for each in asked)
    quorum = max(each.number("quorum") or 0 for each in asked)
    if len(names) > 1:
        found = f"they name different masters: {' and '.join(names)}"
        yield problem(
            "sentinel", found, "wait for the failover to end, or SENTINEL RESET the others"
        )
    if any("down" in each.fields.get("flags", "") for each in asked):
        found = f"the Sentinels consider the master {names[0]} down"
        yield problem("sentinel", found, "check the master")
    if quorum > total or len(asked) * 2 <= total:
        found = f"{len(asked)} of {total} answer, the quorum is {quorum}: no failover is possible"
        yield problem("sentinel", found, "start the others, or lower the quorum")
    elif total < 3:
        found = f"only {total}: too few to tell who is cut off"
        yield warning("sentinel", found, "run three, on separate machines")
    else:
        yield ok("sentinel", f"{len(asked)} of {total} answer, quorum {quorum}, master {names[0]}")
    times = {number for each in asked if (number := each.number("down-after-milliseconds"))}
    for milliseconds in sorted(times):
        todo = f"SENTINEL SET … down-after-milliseconds {_SHORTEST_DETECTION} on each"
        yield _detection("down-after", milliseconds, todo)


def check_cluster(facts: Facts) -> Iterator[Finding]:
    """Say whether every slot has a master."""
    cluster = facts.cluster
    if cluster is None:
        return
    if cluster.error:
        yield problem("slots", f"no node returned the slots: {cluster.error}", "see above")
        return
    if cluster.uncovered:
        shown = ", ".join(
            str(first) if first == last else f"{first}-{last}" for first, last in cluster.uncovered
        )
        count = sum(last - first + 1 for first, last in cluster.uncovered)
        found = f"{count} of {SLOTS} have no master: {shown}"
        yield problem("slots", found, "CLUSTER ADDSLOTS, or redis-cli --cluster fix")
    else:
        yield ok("slots", f"all have a master ({len(cluster.replicas)} masters)")


def check_cluster_settings(server: Server, facts: Facts) -> Iterator[Finding]:
    """Say whether a cluster notices a failure in time, and goes on without the part that failed."""
    if facts.topology != "cluster":
        return
    milliseconds = server.setting_number("cluster-node-timeout")
    if milliseconds is not None:
        todo = f"CONFIG SET cluster-node-timeout {_SHORTEST_DETECTION} on each node"
        yield _detection("node timeout", milliseconds, todo)
    full = server.setting("cluster-require-full-coverage")
    if full == "yes":
        found = "one missing master stops every slot"
        yield warning("coverage", found, "CONFIG SET cluster-require-full-coverage no")
    elif full is not None:
        yield ok("coverage", "one missing master stops only its own slots")


def _detection(check: str, milliseconds: int, todo: str) -> Finding:
    if milliseconds > _LONGEST_DETECTION:
        found = f"failures noticed after {milliseconds} ms: calls fail and leases end before that"
        return warning(check, found, todo)
    if milliseconds < _SHORTEST_DETECTION:
        found = f"{milliseconds} ms: a master is replaced before clients notice its silence"
        return warning(check, found, todo)
    return ok(check, f"failures noticed after {milliseconds} ms")
