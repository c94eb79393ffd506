"""Checks of clocks: leases end by the clock of whichever server is master.

An answer to TIME is a moment between question and answer. So each comparison has bounds, and only
what no delay explains is reported.
"""

from __future__ import annotations

from itertools import pairwise

from redisson_py._cli.checks.facts import Clock, Facts
from redisson_py._cli.checks.finding import Finding, hidden, ok, problem, warning

#: Seconds by which clocks may differ before it is reported.
_BETWEEN_SERVERS = 1.0
_FROM_OURS = 5.0
#: The relative speed difference, and the seconds beyond it, that do not count as a step.
_DRIFT, _STEP = 0.01, 0.1

_TODO = "let NTP slew the clocks of all servers, never step them"


def check_clocks(facts: Facts) -> Finding | None:
    """Say whether the clocks agree, and whether one was stepped between two looks."""
    servers = [each for each in facts.servers if each.answered]
    if not servers:
        return None
    asked = [each for each in servers if each.clocks]
    if not asked:
        return hidden("clock", "the servers' clocks", "allow +time to see them")
    for server in asked:
        step = max((_step(*pair) for pair in pairwise(server.clocks)), key=abs, default=0.0)
        if step:
            found = f"the clock of {server.where} was stepped by {step:+.1f} s a moment ago"
            return problem("clock", found, _TODO)
    ahead = [each.clocks[0].ahead for each in asked]
    apart = max(least for least, _ in ahead) - min(most for _, most in ahead)
    if apart > _BETWEEN_SERVERS:
        found = f"the servers' clocks differ by {apart:.1f} s: a failover ends leases early or late"
        level = problem if apart > facts.lease_time / 3 else warning
        return level("clock", found, _TODO)
    off = max((max(least, -most) for least, most in ahead), default=0.0)
    if off > _FROM_OURS:
        found = f"{off:.1f} s off this machine's clock"
        return warning("clock", found, "find out which is wrong, and slew it")
    bound = max(max(abs(least), abs(most)) for least, most in ahead)
    return ok("clock", f"within {max(bound, 0.001) * 1000:.0f} ms of this machine's clock")


def _step(first: Clock, second: Clock) -> float:
    """Return by how much a clock was stepped between two answers; 0.0 if that is not certain."""
    passed = second.server - first.server
    least = second.asked_at - first.answered_at
    most = second.answered_at - first.asked_at
    spare = _STEP + _DRIFT * most
    if passed > most + spare:
        return passed - most
    if passed < least - spare:
        return passed - least
    return 0.0
