"""Sabotages of waiting: wake-ups that do not come, and compensation that is left out."""

from __future__ import annotations

from tests.jepsen.mutants.sabotage import Sabotage, listed, sabotage
from tests.jepsen.plan import Plan


def _plan(workload: str, *nemeses: str, topology: str = "single", seconds: float = 6) -> Plan:
    return Plan(workload, nemeses, topology, seconds, 1)


_WAKE_UP = "no lost wake-up"

WAITING = (
    # Wake-ups.
    Sabotage(listed("no call at release"), _plan("brief", seconds=3), _WAKE_UP),
    Sabotage(listed("armed after asking"), _plan("brief"), _WAKE_UP),
    Sabotage(
        sabotage(
            "asked before it is subscribed",
            "a release after the request is heard",
            "redisson_py/_engine/bus.py",
            "self._subscribe(seat.channel)",
            "call_later(0.0, lambda: self._subscribe(seat.channel))",
        ),
        _plan("brief"),
        _WAKE_UP,
    ),
    Sabotage(
        sabotage(
            "not asked again once it is subscribed",
            "a release between the first request and the subscription is not missed",
            "redisson_py/_engine/waiting.py",
            "    late = False\n",
            "    late = False\n    if request.heard_busy_at:\n"
            "        await sleeper.wait(_sleep(1.0, deadline))\n",
        ),
        _plan("brief"),
        _WAKE_UP,
    ),
    Sabotage(
        sabotage(
            "the last waiter is told, not the first",
            "a release wakes the waiter whose turn it is",
            "lua/fair_lock/release.lua",
            "  tells = head\nelseif",
            "  tells = redis.call('LINDEX', queue, -1)\nelseif",
        ),
        _plan("fair"),
        _WAKE_UP,
    ),
    Sabotage(listed("not subscribed again"), _plan("brief", "kill-pubsub"), _WAKE_UP),
    # What nobody holds is held by nobody.
    Sabotage(listed("undo left out"), _plan("brief", "cancel"), "leaks"),
    Sabotage(
        listed("a plain acquire that was cancelled is not given back"),
        _plan("brief", "cancel"),
        "leaks",
    ),
    Sabotage(listed("tombstone ignored"), _plan("mutex", "duplicate"), "leaks", 120),
    Sabotage(listed("silence not noticed"), _plan("brief", "half-open"), "no deadlock"),
)
