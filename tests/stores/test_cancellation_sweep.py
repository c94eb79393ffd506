"""Cancelled at any suspension point, in any way, an operation leaves nothing in any store.

The trials are those of the contract's sweep (`tests/contract/test_cancellation_sweep.py`), but for
what is of the stream to Redis. Each has six ways to cancel, and each way is swept beside the
others, on a lock, clients and a proxy of its own: half of them on a lock, half on a fenced lock.
The other kinds of stores are swept as well: both sides of a read-write lock, a semaphore, an
election and a semaphore mutex.
Every suspension point of the caller has its turn. After each cancellation nobody holds the lock
and nobody waits for it in the store, the client is idle, and both clients can acquire it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest

import tests.contract.test_cancellation_sweep as of_locks
from redisson_py._stores.client import StoreClient
from tests.stores.backends import BACKENDS, Backend
from tests.stores.raw_proxy import RawProxy
from tests.support.cancellation_scene import (
    SOON,
    TRIALS,
    Scene,
    Trial,
    acquired_by_next,
    finish,
    once,
)
from tests.support.cancellation_sides import StoreSide
from tests.support.cancellation_sweep import KINDS as CANCELLATIONS
from tests.support.cancellation_sweep import Probe, Swept, sweep_one_way
from tests.support.kinds import KINDS, STORE_KINDS, as_lock
from tests.support.waiting import set_safety_poll

#: Of the stream to Redis; and of its messages, which come also where nobody is known to wait.
OF_REDIS = [
    of_locks.acquire_in_a_full_stream,
    of_locks.acquire_after_the_head_start_of_another_client,
]

#: Of stores that end a lease to the time.
OF_MIN_HOLD = [
    of_locks.leave_a_block_early,
    of_locks.leave_a_block_early_without_a_connection,
]

STORES = [name for name in BACKENDS if name != "redis"]
OF_STORES = [each for each, kinds in TRIALS.items() if "lock" in kinds and each not in OF_REDIS]
OF_PERMITS = [
    each for each, kinds in TRIALS.items() if "semaphore" in kinds and each not in OF_REDIS
]
#: Seconds: nothing ends by itself, and nothing is renewed.
LEASE = 30
WAYS = [*itertools.product(CANCELLATIONS, (False, True))]


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the safety poll, so that only the store wakes waiters."""
    set_safety_poll(monkeypatch, 6 * SOON)


async def swept_in(
    backend: Backend,
    each: Trial,
    number: int,
    swept: str,
) -> Swept:
    """Sweep a trial in one way, on a lock of its own; the other client has what excludes it."""
    kind = STORE_KINDS[f"fenced_{swept}" if swept in LOCKS and number % 4 in (1, 2) else swept]
    way, answered = WAYS[number]
    name = f"k-{number}"
    made: list[Any] = []

    def make_lock(client: StoreClient, other: str = "") -> Any:
        # The scene makes its client first, and then the other one.
        make = kind.rival_of if client is made[1] else kind.one
        return as_lock(make(client, f"{name}-{other}" if other else name), kind)

    async with RawProxy(backend.server.port) as proxy:

        def new_client(**options: Any) -> Any:
            made.append(backend.client(backend.url_at(proxy.port), lease_time=LEASE, **options))
            return made[-1]

        side = StoreSide(proxy.cut, ends_leases=kind.ends_leases)
        scene = Scene(make_lock, new_client, side, name)

        async def run(cut: Probe) -> None:
            await each(scene, cut)
            await scene.check(scene.client)

        try:
            return await sweep_one_way(run, way, answered=answered)
        except BaseException as error:
            error.add_note(f"on a {scene.lock.kind}")
            raise
        finally:
            with contextlib.suppress(Exception):
                await asyncio.gather(*[client.aclose() for client in made])


async def read_under_a_write(scene: Scene, cut: Probe) -> None:
    async with KINDS["write_lock"].one(scene.client, scene.name) as lease:
        await finish(await cut(scene.lock.acquire()))
        assert not lease.lost


async def release_of_a_write_above_a_read(scene: Scene, cut: Probe) -> None:
    """The read stays, and another client that waits to write waits for it."""
    write = await KINDS["write_lock"].one(scene.client, scene.name).acquire()
    read = await scene.lock.acquire()
    following = asyncio.create_task(acquired_by_next(scene.others_lock))
    await scene.side.until_listening(scene.other)
    await cut(write.release())
    await scene.executed()
    assert not read.lost
    assert not following.done()
    await read.release()
    await following


#: The other client writes. Tasks of one client read together: there is nothing to pass on.
OF_READS = [
    *[each for each in OF_STORES if "pass" not in each.__name__ and each is not of_locks.aclose],
    read_under_a_write,
    release_of_a_write_above_a_read,
]


def observed(scene: Scene) -> Any:
    """Return what the store of the client remembers of observers."""
    client: Any = scene.client
    store = client._store
    match store.title:
        case "etcd":
            return store._watches._by_waiter
        case "PostgreSQL":
            return store._listening and store._listening._observers
        case "MySQL":
            return store._looks
        case _:
            return store._elections._observed


async def first_look_of_an_observer(scene: Scene, cut: Probe) -> None:
    client: Any = scene.client
    states = client.get_election(scene.name).observe()
    await cut(anext(states))
    await states.aclose()
    await scene.executed()
    assert not observed(scene)


async def next_look_of_an_observer(scene: Scene, cut: Probe) -> None:
    client: Any = scene.client
    states = client.get_election(scene.name).observe()
    assert await anext(states) is None
    elect = once(scene.others_lock.acquire)
    watched = scene.when_asleep(lambda: client._context.bus.table.seats and elect())
    seen = await cut(anext(states), watched)
    assert seen is None or seen.text == "value"
    await states.aclose()
    await scene.executed()
    assert not observed(scene)
    await (await elect()).release()


async def proclaim(scene: Scene, cut: Probe) -> None:
    """It is carried out or not, and the next one is."""
    client: Any = scene.client
    leadership = await scene.lock.acquire()
    await cut(leadership.proclaim("host-2"))
    assert not leadership.lost
    await leadership.proclaim("host-3")
    assert (await client.get_election(scene.name).leader()).text == "host-3"
    await leadership.release()


#: A lock of the same name has the same keys: its owner is another one's value.
BESIDE_A_LOCK = [of_locks.acquire_beside_another_kind_of_lock]
#: Candidates of one client stand beside each other in the store: there is nothing to pass on.
OF_CAMPAIGNS = [
    *[each for each in OF_STORES if "pass" not in each.__name__ and each not in BESIDE_A_LOCK],
    first_look_of_an_observer,
    next_look_of_an_observer,
    proclaim,
]

#: A fenced lock is swept beside the plain one.
LOCKS = [f"lock_in_{store}" for store in STORES]
OF_KINDS = {
    **dict.fromkeys(LOCKS, OF_STORES),
    **{name: OF_STORES for name in STORE_KINDS if name.startswith(("write_lock", "semaphore"))},
    **{name: OF_READS for name, kind in STORE_KINDS.items() if kind.shared},
    **{name: OF_CAMPAIGNS for name in STORE_KINDS if name.startswith("candidate")},
    **{name: OF_PERMITS for name, kind in STORE_KINDS.items() if kind.semaphore},
}


@pytest.mark.parametrize(
    ("backend", "each", "swept"),
    [
        pytest.param(STORE_KINDS[swept].store, each, swept, id=f"{swept}-{each.__name__}")
        for swept, trials in OF_KINDS.items()
        for each in trials
        if each not in OF_MIN_HOLD or STORE_KINDS[swept].stay_taken
    ],
    indirect=["backend"],
)
async def test_sweep(each: Trial, backend: Backend, swept: str) -> None:
    ways = range(len(WAYS))
    await asyncio.gather(*[swept_in(backend, each, number, swept) for number in ways])
