"""A run that nothing struck, in which workers had errors, is not well."""

from __future__ import annotations

from typing import Any

import pytest

from tests.jepsen.complete import unprovoked
from tests.jepsen.history import History, Op
from tests.jepsen.made import op
from tests.jepsen.plan import Plan

QUIET = Plan("reentrant", (), "single", 5, 7)
#: The use of w0 that was granted, and those of w1 that were answered meanwhile.
GRANT = op("acquire", "w0", 0, 1)
ANSWERED = [op("acquire", "w0", moment, moment + 50) for moment in range(1000, 2000, 50)]


def said(*ops: Op, plan: Plan = QUIET) -> list[str]:
    """Return what is said of a run with these operations."""
    return [*unprovoked(plan, History(list(ops)))]


def failed(err: str, word: str = "acquire", **facts: Any) -> Op:
    """Return an operation that ended with an error."""
    return op(word, "w0", 10, 20, "info", err=err, **facts)


def test_a_run_without_errors_is_fine() -> None:
    assert said(GRANT, failed("AcquireTimeoutError"), failed("timeout", "woken")) == []
    # Cancelled is not what the library says, and a wait that failed is told once.
    assert said(GRANT, failed("CancelledError"), failed("failed", "woken")) == []


@pytest.mark.parametrize(
    "err", ["ScriptError OOM", "BackendError", "ReleaseFailedError", "ClientClosedError"]
)
def test_an_error_that_nothing_can_have_caused(err: str) -> None:
    name = err.split()[0]
    expected = [f"nothing struck, and workers had errors: {name} (2)"]
    assert said(GRANT, failed(err), failed(err, "release")) == expected


def test_a_nemesis_of_the_plan_or_the_history_explains_errors() -> None:
    assert said(failed("BackendError"), plan=Plan("mutex", ("kill",), "single", 5, 7)) == []
    assert said(failed("BackendError"), op("nemesis", "kill", 0, 1)) == []


def test_what_slowness_explains_is_rarer_than_grants() -> None:
    lost = failed("ConnectionLostError")
    assert said(GRANT, lost) == []
    expected = "nothing struck, and workers had more errors than grants: ConnectionLostError (2)"
    assert said(GRANT, lost, lost) == [expected]


TOLD = op("told", "w0", 2000, 2000, err="expired")


def test_a_lease_that_ended_while_all_worked() -> None:
    assert said(TOLD, *ANSWERED) == [
        "nothing struck, and leases ended that could be renewed: plain-1 (1)"
    ]


@pytest.mark.parametrize(
    "answered",
    [
        # Nothing came through for a sixth of a lease.
        [each for each in ANSWERED if not 1100 <= each.t0 // 1_000_000 < 1450],
        # One answer took that long.
        [*ANSWERED[:3], op("acquire", "w0", 1150, 1700), *ANSWERED[-5:]],
        # Others had answers.
        [op("acquire", "w1", moment, moment + 50) for moment in range(1000, 2000, 50)],
    ],
)
def test_a_lease_that_slowness_may_have_ended(answered: list[Op]) -> None:
    assert said(TOLD, *answered) == []


def test_a_lease_that_nobody_renews_may_end() -> None:
    assert said(TOLD, *ANSWERED, plan=Plan("expirable", (), "single", 5, 7)) == []
