"""What the locks of one name share: found by key, forgotten when nobody needs it."""

from __future__ import annotations

import asyncio
import itertools
import random
import subprocess
import sys
from typing import Any, cast

import pytest

from redisson_py import Redisson
from redisson_py._engine import context
from redisson_py._engine.context import Recent, Registry, TaskHolds
from redisson_py._engine.hold import Hold
from redisson_py._engine.local_queue import LocalQueue
from tests.sync.interrupting import interrupted_at
from tests.unit.fakes import FakeTask, make_hold
from tests.unit.waiting_tasks import send_away, wait_in


def open_queue(registry: Registry, key: bytes) -> LocalQueue[Hold]:
    return registry.queues["lock"].get(key, LocalQueue)


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


def test_holds_of_tasks_are_a_dictionary_that_ended_tasks_leave() -> None:
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


def test_what_is_used_stays_and_the_others_are_bounded() -> None:
    recent = Recent[int, object](10)
    made: list[int] = []

    def look_up(name: int) -> object:
        def make() -> object:
            made.append(name)
            return object()

        try:
            return recent[name]
        except KeyError:
            return recent.made(name, make)

    used = look_up(0)
    for name in range(1, 1000):
        look_up(name)
        assert look_up(0) is used
        assert len(recent) <= 10
        assert len(recent) + len(recent._old) <= 20
    assert made == [*range(1000)]
    # Long gone, so made again.
    look_up(1)
    assert made[-1] == 1


def test_a_number_of_permits_is_checked_although_true_equals_one() -> None:
    client = Redisson.from_url("redis://127.0.0.1:1")
    client.get_semaphore("s", 1)
    with pytest.raises(TypeError):
        client.get_semaphore("s", True)
    asyncio.run(client.aclose())


def test_redis_py_is_not_imported_before_there_is_a_client() -> None:
    code = (
        "import sys, redisson_py; assert 'redis' not in sys.modules;"
        "redisson_py.Redisson.from_url('redis://127.0.0.1:1'); assert 'redis' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
