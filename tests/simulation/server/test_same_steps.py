"""Random steps have the same replies, messages and keys on both servers, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fixtures.measured import Measured
from tests.simulation.server import registry
from tests.simulation.server.database import Database
from tests.simulation.server.plain_commands import incrby
from tests.simulation.server.replies import Reply
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


def late_expiry(db: Database, key: bytes) -> Reply:
    """Answer as if every expiry were a millisecond later."""
    left = db.left_ms(key)
    return left + 1 if left >= 0 else left


def lost_expiry(db: Database, key: bytes, change: bytes) -> Reply:
    """Count, and forget when the counter expires."""
    number = incrby(db, key, change)
    db.persist(key)
    return number


def deaf(db: Database, channel: bytes, _: bytes) -> Reply:
    """Say how many were told, and tell nobody."""
    return db.channels.count(channel, sharded=False)


@pytest.mark.parametrize(
    ("name", "wrong"), [(b"PTTL", late_expiry), (b"INCRBY", lost_expiry), (b"PUBLISH", deaf)]
)
def test_a_small_difference_is_noticed(
    twins: Twins, monkeypatch: pytest.MonkeyPatch, name: bytes, wrong: Callable[..., Reply]
) -> None:
    command = registry.COMMANDS[name]
    monkeypatch.setitem(registry.COMMANDS, name, command._replace(run=wrong))
    with pytest.raises(AssertionError, match="simulated: "):
        for seed in range(20):
            twins.play_seed(seed, STEPS)
