"""Sabotages of leases, of tokens at the resource, of repetitions, and of what a server refuses."""

from __future__ import annotations

from tests.jepsen.mutants.sabotage import Sabotage, listed, sabotage
from tests.jepsen.plan import Plan


def _plan(workload: str, *nemeses: str, topology: str = "single", seconds: float = 6) -> Plan:
    return Plan(workload, nemeses, topology, seconds, 1)


LEASES = (
    Sabotage(
        sabotage(
            "an extension adds to the lease",
            "a lease ends as long after the extension as was asked for",
            "lua/lock/set_lease.lua",
            "string.format('%.0f', lease_ms))",
            "string.format('%.0f', lease_ms + redis.call('PTTL', lock)))",
        ),
        _plan("extend"),
        "loss detection",
    ),
    Sabotage(listed("no owner check in renew"), _plan("forced"), "loss detection"),
    Sabotage(
        sabotage(
            "whoever comes while it is held shares the token",
            "a resource that checks tokens loses no update",
            "lua/fenced_lock/acquire.lua",
            "  return {0, redis.call('PTTL', lock)}\n",
            "  return {1, redis.call('GET', token) - tokens + 1}\n",
        ),
        _plan("set-add", seconds=3),
        "set add",
    ),
    Sabotage(
        sabotage(
            "a semaphore that is asked again takes again",
            "a repeated request takes its units once",
            "lua/semaphore/acquire.lua",
            "if found and has then",
            "if false then",
        ),
        _plan("semaphore", "cut-after"),
        "semaphore capacity",
    ),
    Sabotage(
        sabotage(
            "each client judges the queue by its own clock",
            "one clock says which waiters are alive",
            "lua/fair_lock/acquire.lua",
            "local present, waiter = now(), place",
            "local present, waiter = now() + (string.byte(owner) % 4 - 2) * 1000, place",
        ),
        _plan("fair"),
        "fifo",
    ),
    Sabotage(
        sabotage(
            "a grant whose lease is refused stays",
            "what is refused has changed nothing",
            "lua/lock/acquire.lua",
            "    redis.call('DEL', lock)\n",
            "",
        ),
        _plan("mutex", "acl"),
        "leaks",
    ),
    Sabotage(
        sabotage(
            "WAIT is asked of a connection that wrote nothing",
            "a grant counts when replicas have it",
            "redisson_py/_topology/confirming.py",
            "        if got < self._number:\n",
            "        # All replicas have what such a connection wrote.\n        if False:\n",
        ),
        _plan("synced", "replica-freeze", topology="replicas"),
        "mutual exclusion",
    ),
    Sabotage(
        listed("release not allowed on a full server"),
        _plan("mutex", "memory-full"),
        "no unexpected error",
    ),
)
