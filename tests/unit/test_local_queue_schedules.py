"""Whatever the schedule, nobody is forgotten in the local queue: the queue against a model lock.

Tasks come, give up, ask, are granted, release and lose; another process takes the lock too.
Time passes only by the schedule, and no timer helps: a task that nobody calls waits for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from redisson_py._engine.hold import Hold
from redisson_py._engine.local_queue import LocalQueue
from tests.unit.fakes import LEASE, FakeClock, random_schedule
from tests.unit.waiting_tasks import PASSING_SECONDS, QueueOwnership, WaitingTask, iterations

Move = Callable[[], object]


class World:
    """One queue, the tasks around it, and everything that can happen next.

    Attributes:
        elsewhere: Another process holds the lock.
        unanswered: A release was sent, and Redis has not answered.
    """

    def __init__(self, queue: LocalQueue[Hold], clock: FakeClock) -> None:
        self.queue = queue
        self.clock = clock
        self.lock = QueueOwnership(queue)
        self.elsewhere = False
        self.tasks: list[WaitingTask] = []
        self.holders: dict[WaitingTask, Hold] = {}
        self.asking: list[WaitingTask] = []
        self.seen: set[WaitingTask] = set()

    def look(self) -> None:
        """Note what the tasks were given, and check what holds between any two steps."""
        for each in self.tasks:
            if each.got is None or each in self.seen:
                continue
            self.seen.add(each)
            if each.got is True:
                self.asking.append(each)
            elif isinstance(each.got, Hold):
                self.holders[each] = each.got
        for each, hold in list(self.holders.items()):
            if hold.state != "held":
                del self.holders[each]
        self.queue.check()
        assert len(self.asking) <= 1, "one asks for all"
        valid = [hold for hold in self.holders.values() if hold.valid]
        assert len(valid) <= 1, "two hold it"
        assert not valid or not self.asking

    def moves(self) -> list[Move]:
        """Return what can happen now, the likelier things more than once."""
        waiting = [each for each in self.tasks if not each.task.done()]
        moves: list[Move] = [
            partial(self.clock.sleep, seconds) for seconds in (PASSING_SECONDS, LEASE)
        ]
        if len(waiting) < 4:
            moves += [partial(self.come, True)] * 2 + [partial(self.come, False)]
        moves += [each.task.cancel for each in waiting]
        if not self.elsewhere and not self.queue.hold:
            moves.append(partial(setattr, self, "elsewhere", True))
        if self.elsewhere:
            moves.append(partial(setattr, self, "elsewhere", False))
        moves += [self.grant, self.give_up] if self.asking else []
        moves += [partial(self.release, each) for each in self.holders] * 2
        moves += [partial(hold.lose, "taken") for hold in self.holders.values()]
        moves += [self.lock.release_answered] * 2 if self.queue.releasing else []
        return moves

    def come(self, passable: bool) -> None:
        self.tasks.append(WaitingTask(self.queue, passable=passable))

    def grant(self) -> None:
        """Redis answers the task that asks: granted, or busy."""
        if self.elsewhere:
            self.queue.refused = True
            return
        task = self.asking.pop()
        self.holders[task] = self.lock.new_hold()
        self.queue.asked()

    def give_up(self) -> None:
        self.asking.pop()
        self.queue.asked()

    def release(self, task: WaitingTask) -> None:
        hold = self.holders.pop(task)
        if not self.lock.pass_on(hold):
            self.lock.send_release(hold)

    async def settle(self) -> None:
        """Let all who wait have it, one after the other; somebody else wants nothing any more."""
        self.elsewhere = False
        while True:
            await iterations()
            self.look()
            if self.queue.releasing:
                self.lock.release_answered()
            elif self.asking:
                self.grant()
            elif self.holders:
                self.release(next(iter(self.holders)))
            elif self.queue.hold is not None:
                # The one that it was passed to has not looked, or the watchdog will end it.
                self.queue.hold.lose("expired")
            else:
                return

    @property
    def forgotten(self) -> list[WaitingTask]:
        return [each for each in self.tasks if not each.task.done()]


async def run(schedule: list[int], queue: LocalQueue[Hold], clock: FakeClock) -> bool:
    world = World(queue, clock)
    try:
        for number in schedule:
            moves = world.moves()
            moves[number // 4 % len(moves)]()
            await iterations(number % 4)
            world.look()
        await world.settle()
        assert not queue.needed(clock.present) or queue.head_start is not None
        return bool(world.forgotten)
    finally:
        left = [each.task for each in world.tasks if not each.task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def forgets(schedule: list[int]) -> bool:
    """Return whether somebody is left waiting, in this schedule, although the lock is free."""
    clock = FakeClock()
    with pytest.MonkeyPatch.context() as patch:
        clock.control_leases(patch)
        return asyncio.run(run(schedule, LocalQueue(), clock))


def test_hundreds_of_random_schedules_forget_nobody() -> None:
    assert [seed for seed in range(500) if forgets(random_schedule(seed, 80))] == []


async def test_a_lost_hold_is_not_waited_for_beyond_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, queue = FakeClock(), LocalQueue[Hold]()
    clock.control_leases(monkeypatch)
    monkeypatch.setattr("redisson_py._engine.local_queue.loop_time", clock.time)
    hold = QueueOwnership(queue).new_hold()
    waiter = WaitingTask(queue, deadline=clock.present + LEASE)
    await iterations()
    assert queue.pass_on(hold, PASSING_SECONDS, LEASE / 2)
    clock.sleep(LEASE)
    queue.releasing = True
    assert await waiter.task is False
    assert not queue.waiters
