"""Random steps have the same replies, messages and keys on both servers, byte for byte."""

from __future__ import annotations

from tests.fixtures.measured import Measured
from tests.simulation.server.twins import Twins

SEEDS, STEPS = 40, 250


def test_random_steps(valkey_url: str, measured: Measured) -> None:
    compared = 0
    for seed in range(SEEDS):
        twins = Twins(valkey_url)
        try:
            compared += twins.play_seed(seed, STEPS)
        finally:
            twins.close()
    assert compared > SEEDS * STEPS
    measured("replies of the simulated server, the same as Valkey's", f"{compared:,}")
