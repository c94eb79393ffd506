"""Cancelled at any suspension point, in any way, an operation leaves nothing in any store.

The trials are those of the contract's sweep (`tests/contract/test_cancellation_sweep.py`), but for
what is of the stream to Redis. Each has six ways to cancel, and each way is swept on a lock, clients
and a proxy of its own, beside the others: half of them on a lock, half on a fenced lock. Every
suspension point of the caller has its turn. After each cancellation nobody holds the lock and nobody
waits for it in the store, the client is idle, and both clients can acquire it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest

import tests.contract.test_cancellation_sweep as of_locks
from redisson_py._stores.client import StoreClient
from tests.fixtures.measured import Measured
from tests.stores.backends import BACKENDS, Backend
from tests.stores.raw_proxy import RawProxy
from tests.support.cancellation_scene import SOON, TRIALS, Scene, Trial
from tests.support.cancellation_sides import StoreSide
from tests.support.cancellation_sweep import KINDS, Probe, Swept, sweep_one_way
from tests.support.waiting import set_safety_poll

#: Of the stream to Redis.
OF_REDIS = [of_locks.acquire_in_a_full_stream]
#: They change the engine while they run, so their ways are swept one after the other.
ALONE = [of_locks.acquire_after_the_turn_of_another_client]

STORES = [name for name in BACKENDS if name != "redis"]
OF_STORES = [each for each, kinds in TRIALS.items() if "lock" in kinds and each not in OF_REDIS]
#: Seconds: nothing ends by itself, and nothing is renewed.
LEASE = 30
WAYS = [*itertools.product(KINDS, (False, True))]


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the safety poll, so that only the store wakes waiters."""
    set_safety_poll(monkeypatch, 6 * SOON)


async def swept_in(backend: Backend, each: Trial, number: int) -> Swept:
    """Sweep a trial in one way, on a lock of its own."""
    kind, answered = WAYS[number]
    name, fenced = f"k-{number}", number % 4 in (1, 2)

    def make_lock(client: StoreClient, other: str = "") -> Any:
        full = f"{name}-{other}" if other else name
        return client.get_fenced_lock(full) if fenced else client.get_lock(full)

    made: list[Any] = []

    async with RawProxy(backend.server.port) as proxy:

        def new_client(**options: Any) -> Any:
            made.append(backend.client(backend.url_at(proxy.port), lease_time=LEASE, **options))
            return made[-1]

        side = StoreSide(proxy.cut, ends_leases=backend.ends_leases)
        scene = Scene(make_lock, new_client, side, name)

        async def run(cut: Probe) -> None:
            await each(scene, cut)
            await scene.check(scene.client)

        try:
            return await sweep_one_way(run, kind, answered=answered)
        except BaseException as error:
            error.add_note(f"on a {scene.lock.kind}")
            raise
        finally:
            with contextlib.suppress(Exception):
                await asyncio.gather(*[client.aclose() for client in made])


_swept: dict[str, Swept] = {}


@pytest.mark.parametrize("backend", STORES, indirect=True)
@pytest.mark.parametrize("each", OF_STORES, ids=lambda each: each.__name__)
async def test_sweep(each: Trial, backend: Backend, request: pytest.FixtureRequest) -> None:
    ways = range(len(WAYS))
    if each in ALONE:
        found = [await swept_in(backend, each, number) for number in ways]
    else:
        found = await asyncio.gather(*[swept_in(backend, each, number) for number in ways])
    store = request.node.callspec.params["backend"]
    for one in found:
        _swept.setdefault(store, Swept()).add(one)


@pytest.mark.parametrize("store", STORES)
def test_points_swept(store: str, measured: Measured) -> None:
    if store not in _swept:
        pytest.skip("nothing was swept in this run")
    measured(f"points swept on {store}", _swept[store])
