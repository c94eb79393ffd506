"""Cancelled at any suspension point, in any way, an operation leaves nothing behind.

Each function here that takes a scene and a probe is a trial: it sets the scene, puts one public
operation through the probe, which cancels it once (see `tests.support.cancellation_sweep`), and
gives back by the public API what it got. One round trip after each trial the lock must be free,
the client idle, and both clients able to acquire the lock. Semaphores are locks here: an acquire
takes all their permits.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import ClientClosedError, NotHeldError
from redisson_py._engine import local_queue
from redisson_py._redis.stream.stream import Stream
from tests.fixtures.client import ClientFactory
from tests.fixtures.measured import Measured
from tests.support.cancellation_scene import (
    SOON,
    SWEPT,
    TRIALS,
    Release,
    Scene,
    Trial,
    acquired_by_next,
    finish,
    once,
    refusal_allowed,
    trial,
    trial_of,
    trial_of_locks,
    trial_of_min_hold,
    trial_of_permits,
)
from tests.support.cancellation_sides import RedisSide
from tests.support.cancellation_sweep import Probe, Swept, sweep
from tests.support.kinds import Kind, MakeLock
from tests.support.waiting import set_safety_poll, until, until_waiting

pytestmark = pytest.mark.also("cluster", "sentinel", "newest")

# Acquiring.


@trial
async def acquire_a_free_lock(scene: Scene, cut: Probe) -> None:
    await finish(await cut(scene.lock.acquire()))


@trial
async def try_acquire_once(scene: Scene, cut: Probe) -> None:
    await finish(await cut(scene.lock.try_acquire()))


@trial
async def acquire_while_connecting(scene: Scene, cut: Probe) -> None:
    client = scene.new_client()
    await finish(await cut(scene.make_lock(client).acquire()))
    await scene.check(client)
    await client.aclose()


@trial_of_min_hold
async def leave_a_block_early(scene: Scene, cut: Probe) -> None:
    """Exactly a body that was entered leaves the name taken, wherever the task is cancelled."""
    await _leave_early(scene, cut, once(lambda: asyncio.sleep(0)))


@trial_of_min_hold
async def leave_a_block_early_without_a_connection(scene: Scene, cut: Probe) -> None:
    await _leave_early(scene, cut, once(scene.lose_connection))


async def _leave_early(scene: Scene, cut: Probe, body: Release) -> None:
    entered = False

    async def work() -> None:
        nonlocal entered
        async with scene.lock.hold(min_hold=300):
            entered = True
            await body()

    await cut(work())
    assert await scene.hold_count() == 0
    await scene.side.settled(scene.client)
    assert await scene.others_lock.locked() == entered
    assert await scene.others_lock.force_release() == entered


@trial_of_locks
async def acquire_in_a_full_stream(scene: Scene, cut: Probe) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # As under high load: a new call has to wait for the answers.
        patch.setattr(Stream, "full", property(lambda stream: stream.waiting))
        before = asyncio.create_task(scene.client.ping())
        await asyncio.sleep(0)
        follow = once(lambda: acquired_by_next(scene.lock))
        lease = await cut(scene.lock.acquire(), follow)
        await before
        await finish(lease)
        await follow()


@trial
async def acquire_while_reconnecting(scene: Scene, cut: Probe) -> None:
    await scene.lose_connection()
    await finish(await cut(scene.lock.acquire()))


@trial
async def acquire_after_another_client(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by_other_client()
    await scene.get_after(leave, cut, scene.lock.acquire())


@trial_of_locks
async def try_acquire_after_another_client(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by_other_client()
    await scene.get_after(leave, cut, scene.lock.try_acquire(timeout=SOON))


@trial_of_locks
async def acquire_after_another_client_and_before_another_task(scene: Scene, cut: Probe) -> None:
    await get_before_another_task(scene, cut, await scene.taken_by_other_client())


@trial_of("lock", "non_reentrant_lock", "fenced_lock")
async def acquire_beside_another_kind_of_lock(scene: Scene, cut: Probe) -> None:
    """Both sleep on one channel: a wake-up that the first does not use goes to the second."""
    held = await scene.others_lock.acquire()
    fenced, client = scene.lock.kind == "fenced lock", scene.client
    get = client.get_lock if fenced else client.get_fenced_lock
    follow = once(lambda: acquired_by_next(get(scene.name)))

    async def leave_when_both_sleep() -> None:
        follow()
        await asyncio.sleep(0)
        await until(scene.asleep)
        await held.release()

    leave = once(leave_when_both_sleep)
    lease = await cut(scene.lock.acquire(), scene.when_asleep(leave))
    await leave()
    await finish(lease)
    await follow()


@trial_of_locks
async def acquire_after_the_head_start_of_another_client(scene: Scene, cut: Probe) -> None:
    lease = await scene.lock.acquire()
    others = asyncio.create_task(scene.others_lock.acquire(timeout=SOON))
    await scene.side.until_listening(scene.other)
    with pytest.MonkeyPatch.context() as patch:
        # This client lets one message come before it asks again, however long that takes.
        patch.setattr(local_queue, "YIELD_SECONDS", SOON)
        await lease.release()
    leave = once((await others).release)
    await scene.get_after(leave, cut, scene.lock.acquire())


@trial
async def acquire_passed_from_another_task(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by_other_task()
    await scene.get_after(leave, cut, scene.lock.acquire())


@trial_of_locks
async def try_acquire_passed_from_another_task(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by_other_task()
    await scene.get_after(leave, cut, scene.lock.try_acquire(timeout=SOON))


@trial
async def acquire_passed_and_to_be_passed_on(scene: Scene, cut: Probe) -> None:
    await get_before_another_task(scene, cut, await scene.taken_by_other_task())


async def get_before_another_task(scene: Scene, cut: Probe, leave: Release) -> None:
    follow = once(lambda: acquired_by_next(scene.lock))
    lease = await cut(scene.lock.acquire(), scene.when_asleep(lambda: (follow(), leave())))
    await leave()
    await finish(lease)
    await follow()


@trial_of_locks
async def acquire_with_a_lease_time_after_another_task(scene: Scene, cut: Probe) -> None:
    """Nothing is passed to it: it asks Redis when the other task has released."""
    leave = await scene.taken_by_other_task()
    await scene.get_after(leave, cut, scene.lock.acquire(lease_time=20))


@trial_of_permits
async def acquire_behind_another_task(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by_other_client()
    before = asyncio.create_task(acquired_by_next(scene.lock))
    await scene.side.until_listening(scene.client)
    await scene.get_after(leave, cut, scene.lock.acquire(), others=1)
    await before


@trial_of_locks
async def acquire_again(scene: Scene, cut: Probe, *, reconnecting: bool = False) -> None:
    outer = await scene.lock.acquire()
    if reconnecting:
        await scene.lose_connection()
    with refusal_allowed():
        await finish(await cut(scene.lock.acquire()))
    assert await scene.hold_count() == 1
    assert not outer.lost
    await scene.lock.release()


@trial_of_locks
async def acquire_again_while_reconnecting(scene: Scene, cut: Probe) -> None:
    await acquire_again(scene, cut, reconnecting=True)


# Releasing and extending.


@trial
async def release(scene: Scene, cut: Probe) -> None:
    lease = await scene.lock.acquire()
    await cut(scene.release(lease))
    with pytest.raises(NotHeldError):
        await scene.release(lease)


@trial_of_locks
async def release_one_of_two(scene: Scene, cut: Probe) -> None:
    await scene.lock.acquire()
    with refusal_allowed():
        await scene.lock.acquire()
        await cut(scene.lock.release())
    assert await scene.lock.hold_count() == 1
    await scene.lock.release()


@trial
async def release_by_passing_to_another_task(scene: Scene, cut: Probe) -> None:
    lease = await scene.lock.acquire()
    following = asyncio.create_task(acquired_by_next(scene.lock))
    await until_waiting(scene.client, 1)
    await cut(scene.release(lease))
    await following


@trial_of_locks
async def release_before_another_task_asks(scene: Scene, cut: Probe) -> None:
    await scene.lock.acquire()
    following = asyncio.create_task(scene.lock.acquire(timeout=SOON, lease_time=20))
    await until_waiting(scene.client, 1)
    await cut(scene.lock.release())
    await finish(await following)


@trial
async def release_while_another_client_listens(scene: Scene, cut: Probe) -> None:
    lease = await scene.lock.acquire()
    following = asyncio.create_task(acquired_by_next(scene.others_lock))
    await scene.side.until_listening(scene.other)
    await cut(scene.release(lease))
    await following


@trial_of_locks
async def release_while_reconnecting(scene: Scene, cut: Probe) -> None:
    await scene.lock.acquire()
    await scene.lose_connection()
    await cut(scene.lock.release())


@trial_of_locks
async def extend_to_less(scene: Scene, cut: Probe, seconds: float = 15) -> None:
    lease = await scene.lock.acquire()
    await cut(lease.extend(seconds))
    await scene.executed()
    if not scene.permits and scene.side.ends_leases:
        # Redis keeps for the holder what the holder counts on: the old lease or the new one.
        left = await scene.lock.remaining()
        assert left is not None
        assert abs(left - lease.remaining) < 5
    assert not lease.lost
    assert scene.lock.statistics().held_leases == 1
    await lease.release()


@trial
async def extend_to_more(scene: Scene, cut: Probe) -> None:
    await extend_to_less(scene, cut, 60)


# Blocks.


@trial
async def block(scene: Scene, cut: Probe) -> None:
    async def work() -> None:
        async with scene.lock:
            await scene.executed()

    await cut(work())


@trial_of_locks
async def block_with_options_after_another_client(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by_other_client()
    await enter_after(leave, scene, cut, scene.lock.hold(timeout=SOON, lease_time=20))


@trial_of_locks
async def block_passed_from_another_task(scene: Scene, cut: Probe) -> None:
    leave = await scene.taken_by_other_task()
    await enter_after(leave, scene, cut, scene.lock.hold(timeout=SOON))


async def enter_after(leave: Release, scene: Scene, cut: Probe, block: Any) -> None:
    async def work() -> None:
        async with block:
            await scene.executed()

    await cut(work(), scene.when_asleep(leave))
    await leave()


@trial_of_locks
async def block_in_a_block(scene: Scene, cut: Probe) -> None:
    async def work() -> None:
        async with scene.lock:
            with refusal_allowed():
                async with scene.lock:
                    await scene.executed()

    await cut(work())


@trial_of_locks
async def entering(scene: Scene, cut: Probe) -> None:
    if await cut(scene.lock.__aenter__()) is not None:
        await scene.lock.__aexit__(None, None, None)


@trial_of_locks
async def leaving(scene: Scene, cut: Probe) -> None:
    await scene.lock.__aenter__()
    await cut(scene.lock.__aexit__(None, None, None))


# Closing.


@trial
async def aclose(scene: Scene, cut: Probe) -> None:
    theirs = await scene.make_lock(scene.other, "theirs").acquire()
    client: Any = scene.new_client()
    lock = scene.make_lock(client)
    lease = await lock.acquire()
    waiting = [
        asyncio.create_task(each.acquire()) for each in (lock, scene.make_lock(client, "theirs"))
    ]
    await until_waiting(client, 2)
    await scene.side.until_listening(client)
    await closed(scene, client, waiting, cut)
    assert lease.remaining == 0
    await theirs.release()


@trial_of_locks
async def aclose_while_connecting(scene: Scene, cut: Probe) -> None:
    client = scene.new_client()
    waiting = [asyncio.create_task(scene.make_lock(client).acquire()) for _ in range(2)]
    # One turn of the loop: they have asked, and connecting has begun.
    await asyncio.sleep(0)
    await closed(scene, client, waiting, cut)


async def closed(scene: Scene, client: Any, waiting: list[Any], cut: Probe) -> None:
    has_ended = scene.side.ending(client)
    await cut(client.aclose())
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ClientClosedError}
    with pytest.raises(ClientClosedError):
        await scene.side.answered(client)
    await client.aclose()
    await until(has_ended)


@pytest.fixture(autouse=True)
def no_safety_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the safety poll, so that only messages wake waiters."""
    set_safety_poll(monkeypatch, 6 * SOON)


_swept: dict[Kind, Swept] = {}


@pytest.mark.parametrize(
    ("each", "kind"),
    [
        pytest.param(each, SWEPT[name], id=f"{each.__name__}-{name}")
        for each, names in TRIALS.items()
        for name in names
    ],
)
async def test_sweep(
    each: Trial, kind: Kind, make_lock: MakeLock, clients: ClientFactory, redis: Redis
) -> None:
    scene = Scene(make_lock, clients, RedisSide(redis))

    async def run(cut: Probe) -> None:
        await each(scene, cut)
        await scene.check(scene.client)

    _swept.setdefault(kind, Swept()).add(await sweep(run))


@pytest.mark.parametrize("kind", SWEPT.values(), ids=SWEPT)
def test_points_swept(kind: Kind, measured: Measured) -> None:
    if kind not in _swept:
        pytest.skip("nothing was swept in this run")
    measured("points swept", _swept[kind])
