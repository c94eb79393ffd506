"""What the errors of MySQL's driver mean."""

from __future__ import annotations

import pytest

pytest.importorskip("asyncmy")

from redisson_py._stores.mysql.failures import Progress, failure_of

CLOSED = "Transport does not expose socket instance"
MISSING = "'cryptography' package is required for sha256_password or caching_sha2_password"


@pytest.mark.parametrize(("text", "verdict"), [(CLOSED, "lost"), (MISSING, "wrong")])
def test_a_connection_that_was_closed_while_it_was_made_is_no_refusal(
    text: str, verdict: str
) -> None:
    """On uvloop the driver raises the first."""
    failure = failure_of(RuntimeError(text), Progress())
    assert failure.verdict == verdict
    assert not failure.maybe_done
