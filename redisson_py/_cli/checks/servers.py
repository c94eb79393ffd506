"""Checks of one server: what may delete a lock, refuse one, or cut off its holder."""

from __future__ import annotations

from collections.abc import Iterator

from redisson_py._cli.checks.facts import Facts, Server, Version
from redisson_py._cli.checks.finding import Finding, hidden, ok, problem, warning
from redisson_py._redis.stream.handshake import OLDEST_VERSION

#: Part of `maxmemory` above which the server counts as nearly full.
_NEARLY_FULL = 0.9
#: Bytes that a connection with thousands of waiters may have to buffer.
_SMALL_BUFFER = 1 << 20


def check_settings(server: Server, facts: Facts) -> Finding | None:
    """Say which settings cannot be seen: not by this user, or by nobody."""
    if server.config is not None:
        return None
    unseen = ["timeout", "tcp-keepalive", "client-output-buffer-limit"]
    if facts.topology == "cluster":
        unseen += ["cluster-node-timeout", "cluster-require-full-coverage"]
    if server.replicas or facts.topology != "single":
        unseen += ["min-replicas-to-write", "repl-timeout"]
    todo = "the service refuses CONFIG GET: look in its console"
    if "permission" in server.config_refusal:
        todo = "allow +config|get to see them"
    return hidden("settings", ", ".join(unseen), todo)


def check_version(server: Server, facts: Facts) -> Finding:
    """Say whether scripts run there, and run as elsewhere."""
    version, shown = server.version, f"{server.name} {_written(server.version)}"
    if not version:
        return hidden("version", "the version", "allow +info to see it")
    if version < OLDEST_VERSION:
        return problem("version", f"{shown} is too old", "use 6.2 or newer")
    last_bad = (7, 2, 5) if server.name == "Valkey" else (7, 2, 4)
    if (7, 2, 0) <= version <= last_bad:
        return warning(
            "version",
            f"{shown} writes some large numbers in scripts as 1e+08 (redis#13113)",
            "update the server: this library avoids the bug, other scripts may not",
        )
    return ok("version", shown)


def check_role(server: Server, facts: Facts) -> Finding | None:
    """Say whether a server that was named alone takes writes, and stands alone."""
    if facts.topology != "single":
        return None
    info = server.info or {}
    if "sentinel" in (info.get("redis_mode"), info.get("server_mode")):
        todo = "add the service name: redis+sentinel://host1,host2,host3/service"
        return problem("role", "a Sentinel, which keeps no locks", todo)
    if server.is_replica:
        todo = "name the master, or all servers: redis://host1,host2"
        return problem("role", "a replica, which refuses every lock", todo)
    if server.number("cluster_enabled"):
        todo = "name the cluster: redis+cluster://host1,host2"
        return problem("role", "a node of a cluster, which refuses the other nodes' keys", todo)
    return None


def check_eviction(server: Server, facts: Facts) -> Finding:
    """Say whether the server may delete locks to make room."""
    policy = (server.info or {}).get("maxmemory_policy")
    limit, todo = server.number("maxmemory"), "CONFIG SET maxmemory-policy noeviction"
    if policy is None:
        todo = "allow +info, or look in the service's console"
        return hidden("eviction", "the eviction policy", todo)
    if policy == "noeviction":
        return ok("eviction", "noeviction")
    if limit == 0:
        found = f"{policy}: no limit now; with one, the server may delete locks that are held"
        return warning("eviction", found, todo)
    return problem("eviction", f"{policy}: a full server deletes locks that are held", todo)


def check_memory(server: Server, facts: Facts) -> Finding:
    """Say whether there is room for locks."""
    limit, used = server.number("maxmemory"), server.number("used_memory")
    if limit is None or used is None:
        return hidden("memory", "memory use", "allow +info to see it")
    if limit == 0:
        return ok("memory", "no maxmemory set")
    todo = "raise maxmemory, or delete data"
    found = f"{used * 100 // limit} % of maxmemory ({_mib(limit)}) used"
    if used >= limit:
        return problem("memory", f"{found}: the server refuses new locks", todo)
    if used >= limit * _NEARLY_FULL:
        return warning("memory", f"{found}: a full server refuses new locks", todo)
    return ok("memory", f"less than {_NEARLY_FULL * 100:.0f} % of maxmemory used")


def check_persistence(server: Server, facts: Facts) -> Finding:
    """Say which locks survive a restart."""
    info = server.info or {}
    if "aof_enabled" not in info:
        todo = "allow +info, or look in the service's console"
        return hidden("persistence", "persistence", todo)
    # A snapshot that failed stops writes only where snapshots are wanted.
    stops = server.setting("save") != "" and server.setting("stop-writes-on-bgsave-error") != "no"
    snapshot_failed = stops and info.get("rdb_last_bgsave_status") == "err"
    if snapshot_failed or info.get("aof_last_write_status") == "err":
        todo = "check the server's log and disk"
        found = "the last write to disk failed: the server refuses locks"
        return problem("persistence", found, todo)
    if info["aof_enabled"] == "1":
        synced = {
            "always": "at every write",
            "everysec": "every second",
            "no": "when the system decides",
        }
        how = synced.get(server.setting("appendfsync") or "")
        return ok("persistence", "appendonly yes" + (f", synced {how}" if how else ""))
    todo = "CONFIG SET appendonly yes"
    if facts.topology != "single":
        todo += ", or turn off automatic restarts of masters"
    saved = server.setting("save")
    if saved:
        found = "snapshots only: a restart forgets the locks since the last one"
    elif saved == "":
        found = "none: a restart forgets every lock, and others can acquire it at once"
    else:
        found = "appendonly no: a restart forgets locks"
    return warning("persistence", found, todo)


def check_scripts(server: Server, facts: Facts) -> Finding | None:
    """Say whether our scripts can be loaded, and stay."""
    if server.is_replica:
        return None
    if server.load_error:
        return problem(
            "scripts",
            f"the server refuses SCRIPT LOAD: {server.load_error}",
            "allow +script|load: nothing works without scripts",
        )
    if server.cached is not None and server.cached < server.loaded:
        return warning(
            "scripts",
            f"loaded {server.loaded}, but only {server.cached} remained a moment later",
            "find who sends SCRIPT FLUSH: each lost script costs a round trip",
        )
    return ok("scripts", f"all {server.loaded} loaded")


def check_idle(server: Server, facts: Facts) -> Iterator[Finding]:
    """Say what the server does with silent connections."""
    limit, period = server.setting_number("timeout"), server.setting_number("tcp-keepalive")
    if limit is not None and 0 < limit <= facts.lease_time / 3:
        yield warning(
            "timeout",
            f"timeout {limit}: the server closes connections between two renewals",
            "CONFIG SET timeout 0",
        )
    elif limit:
        yield ok("timeout", f"idle connections close after {limit} s; clients reconnect")
    elif limit == 0:
        yield ok("timeout", "idle connections stay open")
    if period == 0:
        yield warning(
            "keepalive",
            "tcp-keepalive 0: connections of dead clients stay open",
            "CONFIG SET tcp-keepalive 300",
        )
    elif period is not None:
        yield ok("keepalive", f"tcp-keepalive {period}")


def check_buffers(server: Server, facts: Facts) -> Finding | None:
    """Say whether a connection with many waiters may be cut off because its messages pile up."""
    words = (server.setting("client-output-buffer-limit") or "").split()
    if "pubsub" not in words:
        return None
    hard, soft = (int(each) for each in words[words.index("pubsub") + 1 :][:2])
    if any(0 < limit < _SMALL_BUFFER for limit in (hard, soft)):
        return warning(
            "buffers",
            f"client-output-buffer-limit pubsub {hard} {soft}: cuts off clients with many waiters",
            'CONFIG SET client-output-buffer-limit "pubsub 32mb 8mb 60"',
        )
    return ok("buffers", f"up to {_mib(hard)} of messages" if hard else "no hard limit")


def _written(version: Version) -> str:
    return ".".join(str(part) for part in version)


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.3g} MiB"
