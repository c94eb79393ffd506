"""Sabotages of what tasks of a client hand to each other, of what is late, and of what is left."""

from __future__ import annotations

from tests.jepsen.mutants.sabotage import Sabotage, listed, sabotage
from tests.jepsen.plan import Plan


def _plan(workload: str, *nemeses: str, seconds: float = 6) -> Plan:
    return Plan(workload, nemeses, "single", seconds, 1)


_PASSED_UNSEEN = sabotage(
    "a waiter takes what it is passed without a look",
    "a waiter that was passed a lost hold is the first in the queue again",
    "redisson_py/_engine/local_queue.py",
    "                if passed.valid:\n",
    "                if True:\n",
)

HOLDING = (
    # From task to task.
    Sabotage(
        sabotage(
            "a wake-up is not passed on",
            "a waiter that is cancelled when it is its turn lets the next one ask",
            "redisson_py/_engine/local_queue.py",
            "        if given is _ASK:\n            self.asked()\n",
            "        if given is _ASK:\n            pass\n",
        ),
        _plan("churn"),
        "leaks",
    ),
    Sabotage(
        sabotage(
            "a lost hold is passed on to the next local waiter",
            "nobody is given what is over",
            "redisson_py/_engine/task_ownership.py",
            'if present < hold.ends_at and hold.state == "held":',
            # What was passed has no request of its own.
            "if hold.asked_at is None or present < hold.ends_at:",
        ),
        _plan("handed", "block"),
        "loss detection",
        limit=120,
        # The queue has looked before.
        also=(_PASSED_UNSEEN,),
    ),
    Sabotage(
        sabotage(
            "a re-entered hold is released as a whole",
            "a lock is free when it was released as often as it was acquired",
            "redisson_py/_engine/ownership.py",
            "        if count:\n            was_valid",
            "        if False:\n            was_valid",
        ),
        _plan("reentrant", seconds=3),
        "hold count",
    ),
    # Late, or for ever.
    Sabotage(listed("a grant that is over is used"), _plan("mutex", "delay"), "loss detection"),
    Sabotage(
        sabotage(
            "a multi lock waits for ever for one of its names",
            "while it holds some of its names it waits for another for a limited time only",
            "redisson_py/composite/multi_lock.py",
            "lease_time, wait if leases else None)",
            "lease_time, None)",
        ),
        _plan("crossed", seconds=3),
        "no deadlock",
    ),
    # What is left of a barrier.
    Sabotage(listed("arrivals without an expiry"), _plan("barrier", "kill"), "leaks", 120),
    Sabotage(
        sabotage(
            "a barrier's record of rounds has no expiry",
            "what is remembered of released rounds is gone when nobody may ask for it",
            "lua/barrier/wait.lua",
            "  redis.call('PEXPIREAT', released, string.format('%.0f', tonumber(last[2])))\n",
            "",
        ),
        _plan("barrier", seconds=3),
        "leaks",
    ),
    Sabotage(
        listed("rounds of a barrier never forgotten"),
        # A round is remembered for a minute and the timeout of its parties.
        _plan("barrier", seconds=70),
        "leaks",
        limit=120,
    ),
)
