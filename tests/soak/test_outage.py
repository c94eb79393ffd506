"""The outages of `make soak`, shorter: what is answered, what is told, and what is left."""

from __future__ import annotations

import logging

import pytest

from tests.fixtures.measured import Measured
from tests.soak.outage import OUTAGES, Plan, outage

#: Leases of 3 s must be lost in it, and those of 30 s must not, however busy the machine is.
PLAN = Plan(
    seconds=7.0, calm=2.0, rate=300, leases=2000, brief=3.0, steady=30.0, command_timeout=2.0
)


@pytest.mark.parametrize("name", OUTAGES)
async def test_every_request_is_answered_and_every_loss_is_reported(
    name: str, server_choice: str, measured: Measured, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "redisson_py")
    result = await outage(PLAN, name, server_choice)
    for what, figure in result.figures.items():
        measured(what, figure)
    for what in result.slow:
        measured("too much for make soak", what)
    assert result.findings == []
