"""The sabotages: what is done, under what it shows, and which checker must say so.

They are the list of the plan of this tool as far as it fits this package (docs/proof.md sums it
up), and some more; those of waiting, of leases and of holding are in files of their own. Each was
seen to be caught within `Sabotage.limit` on a machine with two cores that others used too.
"""

from __future__ import annotations

from tests.jepsen.mutants.listed_holding import HOLDING
from tests.jepsen.mutants.listed_leases import LEASES
from tests.jepsen.mutants.listed_waiting import WAITING
from tests.jepsen.mutants.sabotage import Sabotage, listed, sabotage
from tests.jepsen.plan import Plan


def _plan(workload: str, *nemeses: str, topology: str = "single", seconds: float = 6) -> Plan:
    return Plan(workload, nemeses, topology, seconds, 1)


SABOTAGES = (
    # Who may hold.
    Sabotage(listed("no owner check in acquire"), _plan("mutex", seconds=3), "mutual exclusion"),
    Sabotage(listed("no owner check in release"), _plan("mutex", "late"), "mutual exclusion"),
    Sabotage(
        listed("one owner for all acquisitions of a client"), _plan("fenced", seconds=3), "fencing"
    ),
    Sabotage(
        listed("`ends_at` counted from the reply"),
        _plan("set-add", "delay"),
        "loss detection",
        limit=120,
    ),
    Sabotage(
        sabotage(
            "a check looks at no clock",
            "a holder knows that its lease is over",
            "redisson_py/_engine/lease.py",
            'return self._state == "lost" or (self._state == "held" and now() >= self._ends_at)',
            'return self._state == "lost"',
        ),
        # In a thread, that has no loop whose timers come first.
        _plan("forced", "block"),
        "loss detection",
        limit=120,
    ),
    Sabotage(
        sabotage(
            "a quorum is two of five",
            "two quorums share a server",
            "redisson_py/composite/red_lock.py",
            "len(members) // 2 + 1)",
            "len(members) // 2)",
        ),
        _plan("red", topology="five"),
        "mutual exclusion",
    ),
    Sabotage(
        sabotage(
            "a fenced lock is granted while it is held",
            "one owner at a time",
            "lua/fenced_lock/acquire.lua",
            "if not held and redis.call('EXISTS', lock) == 1 then",
            "if false then",
        ),
        _plan("fenced", seconds=3),
        "linearizability",
    ),
    Sabotage(
        sabotage(
            "a writer is let in beside readers",
            "a writer is alone",
            "lua/write_lock/acquire.lua",
            "if plain and not waited and redis.call('EXISTS', lock, tombstone) == 0 then",
            "if plain and not waited and redis.call('EXISTS', tombstone) == 0 then",
        ),
        _plan("read-write", seconds=3),
        "read-write",
    ),
    # Tokens.
    Sabotage(listed("tokens are a plain counter"), _plan("fenced", "flushall"), "fencing"),
    Sabotage(
        sabotage(
            "the clock alone makes tokens",
            "tokens grow although the clock is set back",
            "lua/fenced_lock/acquire.lua",
            "first = math.max(last + 1, time[1] * 1000000 + time[2])",
            "first = time[1] * 1000000 + time[2]",
        ),
        _plan("fenced", "clock-step"),
        "fencing",
    ),
    Sabotage(
        sabotage(
            "tokens count in tens of seconds",
            "no two grants have the same token",
            "lua/fenced_lock/acquire.lua",
            "first = math.max(last + 1, time[1] * 1000000 + time[2])",
            "first = math.max(last + 1 - tokens, (time[1] - time[1] % 10) * 1000000)",
        ),
        _plan("fenced", seconds=3),
        "referee",
    ),
    # Counts.
    Sabotage(listed("re-entry adds one"), _plan("reentrant", "cut-after"), "hold count"),
    Sabotage(
        sabotage(
            "a semaphore grants what it does not have",
            "never more units taken than there are",
            "lua/semaphore/acquire.lua",
            "local granted = value >= units",
            "local granted = true",
        ),
        _plan("semaphore", seconds=3),
        "semaphore capacity",
    ),
    Sabotage(
        sabotage(
            "a semaphore's short way gives back one unit more than was taken",
            "never more units taken than there are",
            "lua/semaphore/release.lua",
            "redis.pcall('INCRBY', counter, held)",
            "redis.pcall('INCRBY', counter, held + 1)",
        ),
        _plan("semaphore", seconds=3),
        "semaphore capacity",
    ),
    Sabotage(
        sabotage(
            "permits with ids are given without a look at the rest",
            "never more permits taken than there are",
            "lua/expirable_semaphore/acquire.lua",
            "local granted = value >= units",
            "local granted = true",
        ),
        _plan("expirable", seconds=3),
        "semaphore capacity",
    ),
    Sabotage(
        listed("a reader's short way minds no other reader"),
        _plan("read-write", seconds=3),
        "read-write",
    ),
    Sabotage(
        sabotage(
            "readers are let in beside a writer",
            "a writer is alone",
            "lua/read_lock/acquire.lua",
            "if mode ~= 'read' and redis.call('HEXISTS', lock, owner .. ':write') == 0 then",
            "if false then",
        ),
        _plan("read-write", seconds=3),
        "read-write",
    ),
    Sabotage(
        sabotage(
            "a count that comes again counts twice",
            "a count_down counts once",
            "lua/latch/count_down.lua",
            "local seen = served(receipt, calls)",
            "local seen = nil",
        ),
        _plan("latch", "cut-after", "duplicate"),
        "latch",
        limit=120,
    ),
    Sabotage(
        sabotage(
            "the barrier trips one party early",
            "no party is released before all have arrived",
            "lua/barrier/wait.lua",
            "local is_last = not arrived and position + 1 == parties",
            "local is_last = not arrived and position + 2 == parties",
        ),
        _plan("barrier", seconds=3),
        "barrier",
    ),
    # Order.
    Sabotage(
        sabotage(
            "whoever asks a free fair lock gets it",
            "requests are served in the order in which they came",
            "lua/fair_lock/acquire.lua",
            "local granted = not head or head == waiter",
            "local granted = true",
        ),
        _plan("fair"),
        "fifo",
    ),
    # What is left.
    Sabotage(
        sabotage(
            "a lock without an expiry",
            "a lock whose holder died is free within a lease",
            "lua/lock/acquire.lua",
            "local done = redis.pcall('PEXPIRE', lock, lease_ms)",
            "local done = 1",
        ),
        _plan("mutex", "kill"),
        "leaks",
    ),
    *WAITING,
    *LEASES,
    *HOLDING,
)
