"""Checks of access: connecting, running commands, holding a lock."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from redisson_py._cli.checks.facts import Facts, Server
from redisson_py._cli.checks.finding import Finding, ok, problem, warning

#: A connection is replaced when an answer is overdue for this part of the lease: a sixth.
_SILENCE = 6
_LONGEST_SILENCE = 5.0


def check_connection(server: Server, facts: Facts) -> Finding:
    """Say whether the server answers us."""
    if server.answered:
        return ok("connection", "answers")
    todo = (
        "correct the user, password or TLS settings"
        if server.refused
        else "check the server and the network"
    )
    if server.is_replica:
        return warning("connection", server.error, todo)
    return problem("connection", server.error, todo)


def check_permissions(server: Server, facts: Facts) -> Finding:
    """Say what the user may not do and a client needs."""
    if not server.missing:
        how = "ACL DRYRUN" if server.dry_run else "tried with harmless commands"
        return ok("permissions", f"complete ({how})")
    rules = " ".join(each.rule for each in server.missing)
    acl = " ".join(["redisson-py acl", facts.acl_options]).strip()
    todo = f"ACL SETUSER {server.user} with the output of `{acl}`"
    return problem("permissions", f"the user {server.user!r} lacks {rules}", todo)


def check_lock(facts: Facts) -> Iterator[Finding]:
    """Say what became of a real lock, and of a message on its channel."""
    trial = facts.trial
    if trial is None:
        # `check_connection` reports it.
        return
    if trial.error:
        todo = "see the other findings: until this works, no lock does"
        yield problem("lock", f"cannot {trial.step}: {trial.error}", todo)
        return
    yield ok("lock", "acquired, extended, handed over and released")
    if trial.woken and not trial.message_error:
        yield ok("messages", "a release wakes the next waiter")
    else:
        found = "a release wakes no waiter: waiters only poll, every few seconds"
        if trial.message_error:
            found += f"; {trial.message_error}"
        yield problem("messages", found, "allow +subscribe, +unsubscribe and &redisson*")


def check_latency(facts: Facts) -> Finding | None:
    """Say how long an answer takes, compared with when a client takes a connection for dead."""
    pings = facts.trial.pings if facts.trial else ()
    if not pings:
        return None
    longest = max(pings)
    found = f"PING {_ms(median(pings))} (median), {_ms(longest)} (longest of {len(pings)})"
    patience = min(facts.lease_time / _SILENCE, _LONGEST_SILENCE)
    if longest > patience:
        return warning(
            "latency",
            f"{found}: clients give up a connection after {patience:g} s of silence",
            "raise lease_time",
        )
    return ok("latency", found)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
