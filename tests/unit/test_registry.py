"""What the locks of one name share: found by key, forgotten when nobody needs it."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from typing import Any, cast

import pytest

from redisson_py._commands.lock import LockCommands
from redisson_py._engine import context
from redisson_py._engine.context import Registry, TaskHolds
from redisson_py._engine.hold import Hold
from redisson_py._engine.local_queue import LocalQueue
from redisson_py._engine.waiting import Turn
from redisson_py.errors import ClientClosedError
from redisson_py.locks._view import ownership_of
from tests.sync.interrupting import interrupted_at
from tests.unit.fakes import FakeContext, FakeTask, make_hold
from tests.unit.waiting_tasks import send_away, turns, wait_in


async def ended() -> None:
    pass


def open_queue(registry: Registry, key: bytes) -> LocalQueue[Hold]:
    return registry.queues["lock"].get(key, LocalQueue)


async def test_objects_of_one_name_share_queue_and_holds() -> None:
    registry = Registry()
    queue, holds = open_queue(registry, b"k"), registry.holds["lock"].get(b"k", TaskHolds[Hold])
    assert open_queue(registry, b"k") is queue
    assert registry.holds["lock"].get(b"k", TaskHolds) is holds
    assert open_queue(registry, b"other") is not queue
    assert registry.holds["lock"].get(b"other", TaskHolds) is not holds


async def test_asking_and_queued_waiters_both_count_as_waiting() -> None:
    registry = Registry()
    queue = open_queue(registry, b"k")
    waiters = await wait_in(queue, 3)
    assert registry.waiting == 3
    await send_away(queue, *waiters)
    assert registry.waiting == 0


async def test_queues_nobody_needs_are_forgotten_and_the_others_kept() -> None:
    registry, loop = Registry(), asyncio.get_running_loop()
    kept = {key: open_queue(registry, key) for key in (b"held", b"stood in", b"released", b"turn")}
    kept[b"held"].hold = make_hold()
    kept[b"released"].releasing = True
    kept[b"turn"].turn = Turn(3, loop.time() + 60, 60)
    waiters = await wait_in(kept[b"stood in"], 2)
    known = {key: id(queue) for key, queue in kept.items()}
    stood_in = kept.pop(b"stood in")
    kept.clear()
    for number in range(10_000):
        open_queue(registry, b"%d" % number)
    gc.collect()
    assert len(registry.all_queues()) < 300
    assert {key: id(open_queue(registry, key)) for key in known} == known
    await send_away(stood_in, *waiters)


async def test_a_queue_lives_as_long_as_somebody_refers_to_it() -> None:
    registry = Registry()
    mine = open_queue(registry, b"mine")
    for number in range(1000):
        open_queue(registry, b"%d" % number)
    assert b"mine" not in registry.queues["lock"]._kept
    assert open_queue(registry, b"mine") is mine


async def test_a_new_name_never_walks_through_all_others() -> None:
    registry, looks = Registry(), 0

    class Looked(LocalQueue[Any]):
        __slots__ = ()

        def needed(self, present: float) -> bool:
            nonlocal looks
            looks += 1
            return super().needed(present)

    in_use, most = 3_000, 0
    for number in range(10 * in_use):
        before = looks
        registry.queues["lock"].get(b"%d" % number, Looked).releasing = number < in_use
        assert looks - before <= 2
        most = max(most, len(registry.queues["lock"]._kept))
    assert in_use < most < 3 * in_use
    for number in range(in_use):
        registry.queues["lock"].get(b"%d" % number, Looked).releasing = False
    for number in range(10 * in_use):
        registry.queues["lock"].get(b"later %d" % number, Looked)
    assert len(registry.queues["lock"]._kept) < 300


def test_a_part_that_anybody_refers_to_is_never_made_twice() -> None:
    for seed in range(20):
        dice, registry = random.Random(seed), Registry()
        mine: dict[bytes, LocalQueue[Any]] = {}
        for step in range(3_000):
            key = b"%d" % dice.randrange(600)
            queue = open_queue(registry, key)
            assert mine.get(key, queue) is queue, (seed, step)
            if dice.random() < 0.5:
                mine[key] = queue
                queue.releasing = dice.random() < 0.5
            elif mine.pop(key, None) is not None:
                queue.releasing = False
        registry.check()
        for key, queue in mine.items():
            assert open_queue(registry, key) is queue, seed


def test_a_signal_handler_that_raises_at_any_instruction_spoils_no_table() -> None:
    """Ctrl-C, or Celery's soft time limit, while a thread makes a lock of a new name."""
    for step in itertools.count():
        registry = Registry()
        dropped = open_queue(registry, b"dropped")
        others = [open_queue(registry, b"%d" % number) for number in range(200)]
        needed = [open_queue(registry, b"needed %d" % number) for number in range(2)]
        for queue in needed:
            queue.releasing = True
        registry.check()

        def work(registry: Registry = registry) -> None:
            open_queue(registry, b"new")
            open_queue(registry, b"dropped")

        interrupted = interrupted_at(step, work, context.__file__)
        everything = registry.all_queues()
        assert len(everything) == len(set(map(id, everything))), step
        for number in range(1_000):
            open_queue(registry, b"later %d" % number)
        assert open_queue(registry, b"dropped") is dropped, step
        assert [open_queue(registry, b"%d" % number) for number in range(200)] == others, step
        assert [open_queue(registry, b"needed %d" % number) for number in range(2)] == needed, step
        registry.check()
        if not interrupted:
            break
    assert step > 10


def test_a_finalizer_that_makes_a_lock_gets_the_same_part() -> None:
    """The collector may run it while another lock of that name is made."""
    registry = Registry()
    early: list[LocalQueue[Hold]] = []

    def make() -> LocalQueue[Hold]:
        if not early:
            early.append(LocalQueue())
            early[0] = open_queue(registry, b"k")
        return LocalQueue()

    assert registry.queues["lock"].get(b"k", make) is early[0]
    for number in range(1_000):
        open_queue(registry, b"%d" % number)
    assert open_queue(registry, b"k") is early[0]
    registry.check()


async def test_what_a_waiting_task_stands_in_is_never_made_twice() -> None:
    """Its queue was looked at, and dropped, before the task came: it would wait for itself."""
    registry = Registry()
    queue = open_queue(registry, b"k")
    for number in range(1_000):
        open_queue(registry, b"%d" % number)
    assert b"k" not in registry.queues["lock"]._kept, "nobody needed it"
    queue.releasing = True
    waiters = await wait_in(queue, 1)
    for number in range(1_000):
        open_queue(registry, b"other %d" % number)
        assert open_queue(registry, b"k") is queue
        assert registry.waiting == 1
    registry.check()
    await send_away(queue, *waiters)


async def test_closing_sends_everybody_away() -> None:
    registry, waiters = Registry(), []
    for key in (b"a", b"b"):
        queue = open_queue(registry, key)
        queue.releasing = True
        waiters += await wait_in(queue, 2)
    registry.close(ClientClosedError("the client was closed"))
    for waiter in waiters:
        with pytest.raises(ClientClosedError):
            await waiter.task
    assert registry.waiting == 0


async def test_a_queue_that_forgets_somebody_is_found() -> None:
    registry = Registry()
    queue = open_queue(registry, b"k")
    queue.releasing = True
    (waiter,) = await wait_in(queue, 1)
    registry.check()
    queue.releasing = False
    with pytest.raises(AssertionError, match="nobody will call"):
        registry.check()
    await send_away(queue, waiter)


class TestTaskHolds:
    async def test_each_task_finds_its_own(self) -> None:
        holds = TaskHolds[Hold]()
        one, other = (asyncio.create_task(ended()) for _ in range(2))
        first, second = make_hold(), make_hold()
        holds.put(one, first)
        holds.put(other, second)
        assert (holds.of(one), holds.of(other)) == (first, second)
        await asyncio.gather(one, other)
        assert (holds.of(one), holds.of(other)) == (first, second), "referred to, although ended"

    async def test_an_ended_task_that_nobody_refers_to_is_forgotten(self) -> None:
        holds = TaskHolds[Hold]()
        task = asyncio.create_task(ended())
        holds.put(task, make_hold())
        # Put twice: the key that stays must be one that calls back.
        holds.put(task, make_hold())
        await task
        del task
        await turns()
        gc.collect()
        assert not holds

    async def test_it_is_a_dictionary_that_ended_tasks_leave(self) -> None:
        for seed in range(50):
            dice = random.Random(seed)
            holds, tasks = TaskHolds[Hold](), {number: FakeTask() for number in range(4)}
            expected: dict[int, Hold] = {}
            made: list[Hold] = []
            for _ in range(40):
                number, step = dice.randrange(4), dice.choice(("put", "put", "remove", "end"))
                if step == "put":
                    made.append(hold := make_hold())
                    holds.put(cast("Any", tasks[number]), hold)
                    expected[number] = hold
                elif step == "remove" and made:
                    hold = dice.choice(made)
                    holds.remove(hold)
                    expected = {key: each for key, each in expected.items() if each is not hold}
                elif step == "end":
                    # The holds of some ended tasks live on; their keys leave all the same.
                    tasks[number] = FakeTask()
                    expected.pop(number, None)
                found = {n: holds.of(cast("Any", task)) for n, task in tasks.items()}
                assert found == {n: expected.get(n) for n in tasks}, seed
                assert sorted(map(id, holds.all())) == sorted(map(id, expected.values())), seed
                assert len(holds) == len(expected), seed

    async def test_only_the_hold_that_a_task_has_is_taken_from_it(self) -> None:
        context: Any = FakeContext()
        context.registry = Registry()
        ownership = ownership_of(context, "k", LockCommands(b"k"))
        task = asyncio.create_task(ended())
        old, new = make_hold(), make_hold()
        for hold in (old, new):
            ownership.holds.put(task, hold)
        ownership.forget(old)
        assert ownership.holds.of(task) is new
        ownership.forget(new)
        ownership.forget(new)
        assert ownership.holds.of(task) is None
        await task

    async def test_it_goes_when_nobody_needs_it(self) -> None:
        registry = Registry()
        task = asyncio.create_task(ended())
        hold = make_hold()
        registry.holds["lock"].get(b"k", TaskHolds[Hold]).put(task, hold)
        hold.end("released")
        del hold
        for number in range(1000):
            registry.holds["lock"].get(b"%d" % number, TaskHolds)
        gc.collect()
        assert not registry.holds["lock"].get(b"k", TaskHolds), "only a lock or a hold keeps it"
        await task
