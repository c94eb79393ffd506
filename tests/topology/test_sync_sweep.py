"""Cancelled at any await, what replicas have to confirm leaves nothing behind.

The trials are those of the cancellation sweeps, by clients with `sync_replicas`.
"""

from __future__ import annotations

import functools

import pytest

import tests.contract.test_cancellation_sweep  # noqa: F401  # whose trials `TRIALS` has
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.support.cancellation_scene import SOON, SWEPT, TRIALS, Trial
from tests.support.cancellation_scene import Scene as LockScene
from tests.support.cancellation_sides import RedisSide
from tests.support.cancellation_sweep import Probe, Swept, sweep
from tests.support.kinds import SEMAPHORES
from tests.support.waiting import set_safety_poll
from tests.topology.conftest import Pair


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is to be woken by anything but what this is about."""
    set_safety_poll(monkeypatch, 6 * SOON)


@pytest.fixture
def synced(pair: Pair, clients: ClientFactory) -> ClientFactory:
    """Make clients whose grants the replica has to confirm."""
    return functools.partial(clients, pair.url, sync_replicas=1, sync_timeout=SOON)


@pytest.mark.parametrize(
    "kind",
    [
        *["lock", "fair_lock", "write_lock", "multi_lock_of_three"],
        *[*SEMAPHORES, "two_permits_at_once"],
    ],
)
async def test_sweep(kind: str, pair: Pair, synced: ClientFactory, measured: Measured) -> None:
    scene, swept = LockScene(SWEPT[kind].as_lock, synced, RedisSide(pair.redis)), Swept()
    for trial, kinds in TRIALS.items():
        if kind not in kinds:
            continue

        async def run(cut: Probe, trial: Trial = trial) -> None:
            await trial(scene, cut)
            await scene.check(scene.client)

        swept.add(await sweep(run))
    measured(f"points swept with sync_replicas, {kind}", swept)
