"""With a black hole the loss is known before the server lets somebody else in."""

from __future__ import annotations

from tests.fixtures.measured import Measured
from tests.soak.loss_margin import figure, keep_losing

RUNS = 300


async def test_a_loss_is_known_before_the_server_lets_somebody_else_in(
    server_url: str, measured: Measured
) -> None:
    runs = await keep_losing(server_url, RUNS)
    measured("lease.lost before the server's end", figure(runs))
    assert [run for run in runs if run.broken] == []
